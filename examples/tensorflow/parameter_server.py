"""Trains with parameter servers: all four worker pools at once.

    pool 0  chief                hands out the steps, saves checkpoints and the model
    pool 1  workers              compute gradients, each at its own pace
    pool 2  parameter servers    hold the variables
    pool 3  evaluator            tests every checkpoint that it finds, beside the training

The four are one program; TF_CONFIG says which of them this process is. AIP_CHECKPOINT_DIR,
AIP_MODEL_DIR and AIP_TENSORBOARD_LOG_DIR say where things go; the evaluator writes its results,
one JSON object a line, to <job's id>/evaluation.jsonl in the last of them.
"""

import argparse
import importlib.util
import json
import os
import sys
import time

# fit() under this strategy and SidecarEvaluator are not in Keras 3; where its predecessor is
# installed beside it, take that.
if importlib.util.find_spec("tf_keras"):
    os.environ["TF_USE_LEGACY_KERAS"] = "1"

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--evaluation-timeout", type=float, default=60,
                        help="seconds that the chief waits for the last checkpoint's evaluation")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def directory(variable):
    if variable not in os.environ:
        sys.exit(f"{variable} is not set: give the job a baseOutputDirectory")
    return os.environ[variable]


def directory_of_this_job(variable):
    """What chief and evaluator tell each other must not be mistaken for an earlier job's that
    had the same output directory."""
    return os.path.join(directory(variable), os.environ.get("CLOUD_ML_JOB_ID", ""))


def load(seed):
    """Returns (train images, train labels, test images, test labels)."""
    digits = load_digits()
    order = np.random.default_rng(seed).permutation(len(digits.target))
    images = digits.images[order][..., np.newaxis].astype("float32") / 16
    labels = digits.target[order].astype("int64")
    held_out = len(labels) // 5
    return images[held_out:], labels[held_out:], images[:held_out], labels[:held_out]


def build_model(args):
    layers = tf.keras.layers
    model = tf.keras.Sequential([
        layers.Input((8, 8, 1)),
        layers.Conv2D(32, 3, padding="same", activation="relu"),
        layers.Conv2D(32, 3, padding="same", activation="relu"),
        layers.MaxPooling2D(),
        layers.Flatten(),
        layers.Dense(64, activation="relu"),
        layers.Dense(10),
    ])
    model.compile(
        optimizer=tf.keras.optimizers.Adam(args.learning_rate),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"])
    return model


def serve(resolver):
    """A worker or a parameter server: works for the chief until the job ends."""
    server = tf.distribute.Server(resolver.cluster_spec(), job_name=resolver.task_type,
                                  task_index=resolver.task_id, protocol="grpc", start=True)
    server.join()


def evaluation_file():
    return os.path.join(directory_of_this_job("AIP_TENSORBOARD_LOG_DIR"), "evaluation.jsonl")


class Progress(tf.keras.callbacks.Callback):
    """One line an epoch."""

    def on_epoch_begin(self, epoch, logs=None):
        self.begin = time.monotonic()

    def on_epoch_end(self, epoch, logs=None):
        print(f"epoch {epoch + 1}/{self.params['epochs']}  loss {logs['loss']:.4f}  "
              f"accuracy {logs['accuracy']:.4f}  {time.monotonic() - self.begin:.1f} s", flush=True)


class WriteEvaluation(tf.keras.callbacks.Callback):
    """Appends each evaluation to evaluation_file()."""

    def on_test_end(self, logs=None):
        step = int(self.model.optimizer.iterations.numpy())
        result = {"step": step, "accuracy": float(logs["accuracy"]), "loss": float(logs["loss"])}
        os.makedirs(os.path.dirname(evaluation_file()), exist_ok=True)
        with open(evaluation_file(), "a") as results:
            results.write(json.dumps(result) + "\n")
        print(f"evaluated step {step}: accuracy on held-out images: {result['accuracy']:.4f}",
              flush=True)


def evaluate(args):
    """The side-car: tests checkpoints as they come, until the last epoch's."""
    tf.keras.utils.set_random_seed(args.seed)
    _, _, images, labels = load(args.seed)
    tf.keras.utils.SidecarEvaluator(
        model=build_model(args),
        data=tf.data.Dataset.from_tensor_slices((images, labels)).batch(120),
        checkpoint_dir=directory_of_this_job("AIP_CHECKPOINT_DIR"),
        max_evaluations=args.epochs,
        callbacks=[WriteEvaluation()]).start()


def wait_for_evaluation(step, timeout_s):
    """The result for `step`. The chief's end is the job's end, so it waits for the evaluator."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if os.path.exists(evaluation_file()):
            with open(evaluation_file()) as results:
                for line in results:
                    if line.endswith("\n") and json.loads(line)["step"] >= step:
                        return json.loads(line)
        time.sleep(0.2)
    sys.exit(f"no evaluation of step {step} within {timeout_s:.0f} s")


def train(args, resolver):
    """The chief."""
    spec = resolver.cluster_spec().as_dict()
    workers, servers = len(spec["worker"]), len(spec["ps"])
    print(f"chief of {workers} workers and {servers} parameter servers, "
          f"TensorFlow {tf.__version__}", flush=True)

    strategy = tf.distribute.ParameterServerStrategy(
        resolver,
        # Variables above 16 KB are split over the servers.
        variable_partitioner=tf.distribute.experimental.partitioners.MinSizePartitioner(
            min_shard_bytes=16 << 10, max_shards=servers))
    tf.keras.utils.set_random_seed(args.seed)
    images, labels, _, _ = load(args.seed)

    def shuffled(context):
        """Runs on each worker: all images, in an order of its own."""
        seed = args.seed + context.input_pipeline_id
        data = tf.data.Dataset.from_tensor_slices((images, labels))
        return data.shuffle(len(images), seed=seed).repeat().batch(args.batch_size).prefetch(2)

    with strategy.scope():
        model = build_model(args)
    checkpoints = tf.keras.callbacks.ModelCheckpoint(
        os.path.join(directory_of_this_job("AIP_CHECKPOINT_DIR"), "ckpt-{epoch}"),
        save_weights_only=True)
    model.fit(tf.keras.utils.experimental.DatasetCreator(shuffled), epochs=args.epochs,
              steps_per_epoch=len(images) // args.batch_size, verbose=0,
              callbacks=[checkpoints, Progress()])

    model.save(directory("AIP_MODEL_DIR"))
    print(f"saved the model to {directory('AIP_MODEL_DIR')}", flush=True)
    result = wait_for_evaluation(int(model.optimizer.iterations.numpy()), args.evaluation_timeout)
    print(f"accuracy on held-out images: {result['accuracy']:.4f}", flush=True)


def main():
    args = parse_args()
    if "TF_CONFIG" not in os.environ:
        sys.exit("parameter servers need a cluster: run this as a job with worker pools 0 to 3")
    keras = getattr(tf.keras, "__version__", "2")
    if keras.startswith("3."):
        sys.exit(f"Keras {keras} lacks what this needs: "
                 f"pip install --no-deps tf_keras=={tf.__version__}")
    tf.get_logger().setLevel("ERROR")  # not every checkpoint's unused variables
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type in ("worker", "ps"):
        serve(resolver)
    elif resolver.task_type == "evaluator":
        evaluate(args)
    else:
        train(args, resolver)


if __name__ == "__main__":
    main()
