"""Ask, tell and fit with several processes or GPUs that share every training: start it with torchrun.

    torchrun --standalone --nproc-per-node 2 --max-restarts 3 examples/train_on_many.py --folder many

The folder keeps the progress: when a process dies, torchrun ends the others and restarts them all, and they resume
from the last checkpoint. See docs/scale.md.
"""

import argparse
import os
from datetime import timedelta
from pathlib import Path

import torch
from torch import distributed

import askless as al

BLOCKS = 8  # the same training on 1, 2, 4 or 8 processes
DARP = al.DARP(warm_up=0.2)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, default=Path("many"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=32, help="labelled items per step, of all processes together")
    options = parser.parse_args()

    # Without a backend: gloo for memory, nccl for GPUs. A process that waits longer than the timeout fails.
    distributed.init_process_group(timeout=timedelta(minutes=10))
    rank, world, local = distributed.get_rank(), distributed.get_world_size(), int(os.environ["LOCAL_RANK"])
    device = "cpu"
    if torch.cuda.is_available():
        torch.cuda.set_device(local)
        device = f"cuda:{local}"

    # From here on a script as for one process, which all of them run alike; a learner's batch is that of one process.
    options.folder.mkdir(parents=True, exist_ok=True)
    training = al.FixMatch(steps=options.steps, batch=options.batch // world, mu=3, darp=DARP, checkpoint_every=20)
    if (options.folder / "learner.json").exists():
        learner = al.ActiveLearner.load(options.folder, learner=training, device=device)
    else:
        learner = al.ActiveLearner(al.data.digits(), net="small-cnn", learner=training, seed=0, device=device)
    while len(learner.rounds) < options.rounds:
        picks = learner.ask(20).indices
        learner.tell(picks, learner.pool.labels[picks])  # a person's answers, in earnest
        learner.fit(checkpoint=options.folder / "fit.pt", log=options.folder / "log.jsonl", bar=True, blocks=BLOCKS)
        learner.save(options.folder)  # only rank 0 writes
        if rank == 0:
            print(f"{len(learner.labels)} labels, {world} processes: accuracy {learner.score():.4f}", flush=True)
    print(f"rank {rank} would ask for {learner.ask(8).indices.tolist()}", flush=True)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
