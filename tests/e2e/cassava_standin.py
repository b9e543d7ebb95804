"""cassava_standin.py DATA_DIR: random images under the name and in the layout of TensorFlow
Datasets' cassava, which is a download of 1.3 GB."""

import sys

import numpy as np
import tensorflow_datasets as tfds

tfds.core.utils.gcs_utils._is_gcs_disabled = True


class Cassava(tfds.core.GeneratorBasedBuilder):
    VERSION = tfds.core.Version("0.1.0")

    def _info(self):
        return tfds.core.DatasetInfo(
            builder=self,
            features=tfds.features.FeaturesDict({
                "image": tfds.features.Image(),
                "image/filename": tfds.features.Text(),
                "label": tfds.features.ClassLabel(names=["cbb", "cbsd", "cgm", "cmd", "healthy"])}),
            supervised_keys=("image", "label"))

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples(16), "test": self._generate_examples(8),
                "validation": self._generate_examples(8)}

    def _generate_examples(self, count):
        random = np.random.default_rng(count)
        for number in range(count):
            shape = (*random.integers(40, 90, 2), 3)
            yield number, {"image": random.integers(0, 256, shape, "uint8"),
                           "image/filename": f"{number}.jpg", "label": number % 5}


Cassava(data_dir=sys.argv[1]).download_and_prepare()
