"""Trains an image classifier on every machine of a cluster at once.

MultiWorkerMirroredStrategy keeps one copy of the model per replica and sums their gradients after
each step. Which replica this process is, and where the others are, comes from TF_CONFIG; where the
model goes, from AIP_MODEL_DIR. Both are set by the service that runs the job. Without them the same
program trains alone and saves to ./model.

    python mwms_images.py                                          # handwritten digits, a small CNN
    python mwms_images.py --dataset cassava --model resnet50 --weights imagenet --image-size 300
"""

import argparse
import contextlib
import fcntl
import importlib.util
import os
import sys
import tempfile
import time

# Keras 3 cannot train under this strategy; where its predecessor is installed beside it, take that.
if importlib.util.find_spec("tf_keras"):
    os.environ["TF_USE_LEGACY_KERAS"] = "1"

import numpy as np
import tensorflow as tf


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--dataset", choices=["digits", "cassava"], default="digits",
                        help="digits: 1,797 scanned digits, part of scikit-learn; "
                             "cassava: leaf diseases, downloaded by TensorFlow Datasets")
    parser.add_argument("--model", choices=["cnn", "resnet50"], default="cnn")
    parser.add_argument("--weights", choices=["none", "imagenet"], default="none",
                        help="what resnet50 starts from")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--steps-per-epoch", type=int, help="default: all training images")
    parser.add_argument("--batch-size", type=int, default=32, help="per replica")
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--image-size", type=int, help="default: 8 for cnn, 32 for resnet50")
    parser.add_argument("--data-dir", help="where downloads are kept")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def load_digits(seed):
    """Returns ((images, labels) to train, the same to test, image count, classes)."""
    from sklearn.datasets import load_digits as sklearn_digits

    digits = sklearn_digits()
    images = digits.images[..., np.newaxis].astype("float32") / 16
    order = np.random.default_rng(seed).permutation(len(images))
    images, labels = images[order], digits.target[order].astype("int64")
    held_out = len(images) // 5
    train = tf.data.Dataset.from_tensor_slices((images[held_out:], labels[held_out:]))
    test = tf.data.Dataset.from_tensor_slices((images[:held_out], labels[:held_out]))
    return train, test, len(images) - held_out, 10


def load_cassava(data_dir):
    """The same for TensorFlow Datasets' cassava: 5,656 images to train, 1,885 to test."""
    try:
        import tensorflow_datasets as tfds
    except ImportError:
        sys.exit("--dataset cassava: pip install tensorflow-datasets importlib_resources")
    with one_process_at_a_time():
        data, info = tfds.load("cassava", as_supervised=True, with_info=True, data_dir=data_dir)

    def scale(image, label):
        return tf.cast(image, tf.float32) / 255, label

    classes = info.features["label"].num_classes
    return (data["train"].map(scale), data["test"].map(scale),
            info.splits["train"].num_examples, classes)


@contextlib.contextmanager
def one_process_at_a_time():
    """So that replicas which share a disk download a thing once."""
    with open(os.path.join(tempfile.gettempdir(), "mwms_images.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def input_pipelines(args, replicas):
    """Batches of replicas x --batch-size images; the strategy gives each replica its part."""
    if args.dataset == "digits":
        train, test, count, classes = load_digits(args.seed)
    else:
        train, test, count, classes = load_cassava(args.data_dir)

    size = args.image_size or (8 if args.model == "cnn" else 32)
    channels = 3 if args.model == "resnet50" or args.dataset == "cassava" else 1

    def fit(image, label):
        if image.shape[:2] != (size, size):
            image = tf.image.resize(image, (size, size))
        if image.shape[-1] != channels:
            image = tf.image.grayscale_to_rgb(image)
        return tf.ensure_shape(image, (size, size, channels)), label

    options = tf.data.Options()
    # The images are no set of files, so each replica reads all of them and keeps its share.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    options.autotune.enabled = False

    batch = args.batch_size * replicas
    steps = args.steps_per_epoch or max(1, count // batch)
    train = train.map(fit).cache().shuffle(min(count, 4096), seed=args.seed).repeat()
    train = train.batch(batch, drop_remainder=True).prefetch(2).with_options(options)
    test = test.map(fit).batch(batch).with_options(options)
    return train, test, steps, (size, size, channels), classes


def build_model(args, shape, classes):
    layers = tf.keras.layers
    if args.model == "resnet50":
        weights = None if args.weights == "none" else args.weights
        with one_process_at_a_time():
            base = tf.keras.applications.ResNet50(
                weights=weights, include_top=False, input_shape=shape)
        x = layers.GlobalAveragePooling2D()(base.output)
        x = layers.Dense(1016, activation="relu")(x)
        model = tf.keras.Model(base.input, layers.Dense(classes)(x))
    else:
        model = tf.keras.Sequential([
            layers.Input(shape),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dropout(0.25),
            layers.Dense(64, activation="relu"),
            layers.Dense(classes),
        ])
    model.compile(
        optimizer=tf.keras.optimizers.Adam(args.learning_rate),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"])
    return model


class Progress(tf.keras.callbacks.Callback):
    """One line an epoch."""

    def __init__(self, epochs):
        super().__init__()
        self.epochs = epochs

    def on_epoch_begin(self, epoch, logs=None):
        self.begin = time.monotonic()

    def on_epoch_end(self, epoch, logs=None):
        print(f"epoch {epoch + 1}/{self.epochs}  loss {logs['loss']:.4f}  "
              f"accuracy {logs['accuracy']:.4f}  {time.monotonic() - self.begin:.1f} s", flush=True)


def wait_for_all(strategy):
    """Returns once every replica has come here."""

    @tf.function
    def count():
        ones = strategy.run(lambda: tf.constant(1.0))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, ones, axis=None)

    count().numpy()


def save(model, strategy, is_chief):
    """Saving takes part in the cluster's communication, so every replica has to save; only the
    chief's copy is kept."""
    if is_chief:
        directory = os.environ.get("AIP_MODEL_DIR", "model")
        model.save(directory)
        print(f"saved the model to {directory}", flush=True)
    else:
        with tempfile.TemporaryDirectory(prefix="mwms_images-") as directory:
            model.save(os.path.join(directory, "model"))
            print(f"saved a copy to {directory}", flush=True)
        print(f"removed {directory}", flush=True)
    # The chief's end is the job's end: let the others clean up first.
    wait_for_all(strategy)


def main():
    args = parse_args()
    keras = getattr(tf.keras, "__version__", "2")
    if keras.startswith("3."):
        sys.exit(f"Keras {keras} cannot train under MultiWorkerMirroredStrategy: "
                 f"pip install --no-deps tf_keras=={tf.__version__}")
    begin = time.monotonic()

    # The strategy comes before anything else of TensorFlow: it starts this replica's server and
    # meets the others.
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    resolver = strategy.cluster_resolver
    task_type, task_id = resolver.task_type, resolver.task_id
    is_chief = task_type in (None, "chief") or (
        task_type == "worker" and task_id == 0 and "chief" not in resolver.cluster_spec().jobs)
    replicas = strategy.num_replicas_in_sync
    print(f"{task_type or 'alone'} {task_id or 0}: one of {replicas} replicas, "
          f"TensorFlow {tf.__version__}", flush=True)

    tf.keras.utils.set_random_seed(args.seed)
    train, test, steps, shape, classes = input_pipelines(args, replicas)
    with strategy.scope():
        model = build_model(args, shape, classes)
    model.fit(train, epochs=args.epochs, steps_per_epoch=steps, verbose=0,
              callbacks=[Progress(args.epochs)] if is_chief else [])
    _, accuracy = model.evaluate(test, verbose=0)
    if is_chief:
        print(f"accuracy on held-out images: {accuracy:.4f}", flush=True)
    save(model, strategy, is_chief)
    if is_chief:
        print(f"trained {args.model} on {args.dataset} in {time.monotonic() - begin:.1f} s",
              flush=True)


if __name__ == "__main__":
    main()
