"""Trains a digit classifier with PyTorch's DistributedDataParallel, one process per replica.

The service that runs the job sets MASTER_ADDR, MASTER_PORT, WORLD_SIZE and RANK, which is all that
init_process_group needs. With --from-cluster-spec the same four are worked out from CLUSTER_SPEC
instead, as programs do that were written before those variables were set. Rank 0 saves to
AIP_MODEL_DIR. Without any of them the program trains alone and saves to ./model.
"""

import argparse
import json
import os
import time

import numpy as np
import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=32, help="per replica")
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--backend", default="gloo", help="gloo, or nccl where GPUs are")
    parser.add_argument("--from-cluster-spec", action="store_true",
                        help="find rank and addresses in CLUSTER_SPEC")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def rendezvous_from_cluster_spec():
    """Returns (address, port, world size, rank). Worker pool 0 is rank 0, pool 1 follows; other
    pools do not train."""
    spec = json.loads(os.environ["CLUSTER_SPEC"])
    cluster, task = spec["cluster"], spec["task"]
    address, port = cluster["workerpool0"][0].rsplit(":", 1)
    world_size = 1 + len(cluster.get("workerpool1", []))
    rank = 0 if task["type"] == "workerpool0" else int(task["index"]) + 1
    return address, port, world_size, rank


def join(args):
    """Meets the other replicas; returns this one's rank and how many there are."""
    if args.from_cluster_spec:
        address, port, world_size, rank = rendezvous_from_cluster_spec()
        dist.init_process_group(args.backend, init_method=f"tcp://{address}:{port}",
                                world_size=world_size, rank=rank)
    elif "MASTER_ADDR" in os.environ:
        dist.init_process_group(args.backend)
    else:  # a job of one replica
        dist.init_process_group(args.backend, store=dist.HashStore(), world_size=1, rank=0)
    return dist.get_rank(), dist.get_world_size()


def load(seed):
    """Returns (train images, train labels, test images, test labels); the same on every rank."""
    digits = load_digits()
    order = np.random.default_rng(seed).permutation(len(digits.target))
    images = torch.from_numpy(digits.images[order]).float().unsqueeze(1) / 16
    labels = torch.from_numpy(digits.target[order]).long()
    held_out = len(labels) // 5
    return images[held_out:], labels[held_out:], images[:held_out], labels[:held_out]


def build_model():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(),
        nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.25),
        nn.Linear(32 * 4 * 4, 64), nn.ReLU(),
        nn.Linear(64, 10))


def sum_over_ranks(*values):
    total = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(total)
    return total.tolist()


def main():
    args = parse_args()
    rank, world_size = join(args)
    print(f"rank {rank} of {world_size}, PyTorch {torch.__version__}", flush=True)

    torch.manual_seed(args.seed)  # the same first weights everywhere
    model = DistributedDataParallel(build_model())
    optimizer = torch.optim.Adam(model.parameters(), lr=args.learning_rate)
    train_images, train_labels, test_images, test_labels = load(args.seed)

    shard = len(train_labels) // world_size  # the same number of steps on every rank
    torch.manual_seed(args.seed + rank)      # but dropout of its own
    for epoch in range(args.epochs):
        begin, loss_sum, correct = time.monotonic(), 0.0, 0
        order = torch.from_numpy(np.random.default_rng([args.seed, epoch])
                                 .permutation(len(train_labels)))
        mine = order[rank * shard:(rank + 1) * shard]
        model.train()
        for batch in mine.split(args.batch_size):
            logits = model(train_images[batch])
            loss = functional.cross_entropy(logits, train_labels[batch])
            optimizer.zero_grad()
            loss.backward()  # sums the gradients over the ranks
            optimizer.step()
            loss_sum += loss.item() * len(batch)
            correct += (logits.argmax(1) == train_labels[batch]).sum().item()
        loss_sum, correct, count = sum_over_ranks(loss_sum, correct, len(mine))
        if rank == 0:
            print(f"epoch {epoch + 1}/{args.epochs}  loss {loss_sum / count:.4f}  "
                  f"accuracy {correct / count:.4f}  {time.monotonic() - begin:.1f} s", flush=True)

    # Each rank tests its part.
    model.eval()
    mine = slice(rank, None, world_size)
    with torch.inference_mode():
        hits = (model.module(test_images[mine]).argmax(1) == test_labels[mine]).sum().item()
    hits, count = sum_over_ranks(hits, len(test_labels[mine]))

    if rank == 0:
        print(f"accuracy on held-out images: {hits / count:.4f}", flush=True)
        directory = os.environ.get("AIP_MODEL_DIR", "model")
        os.makedirs(directory, exist_ok=True)
        torch.save(model.module.state_dict(), os.path.join(directory, "model.pt"))
        with open(os.path.join(directory, "metrics.json"), "w") as metrics:
            json.dump({"accuracy": hits / count, "world_size": world_size}, metrics)
        print(f"saved the model to {directory}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
