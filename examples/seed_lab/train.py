#!/usr/bin/env python3
"""Trains the three models on the CPU from fixed seeds and writes models/: GGUF files and outputs of PyTorch for tests.
Needs PyTorch 1.13 or newer and numpy; nothing else of the project does.

  train.py [reviews-mean] [reviews-attention] [dates]      all three without arguments
"""
import json
import os
import sys
import time

import torch

import data
import export
from models import Dates, Reviews

HELD_OUT, CASES = 400, 12
PICTURE = ("the third of march nineteen ninety nine", "1999-03-03")


def padded(rows):
    longest = max(len(row) for row in rows)
    return torch.tensor([row + [data.PAD] * (longest - len(row)) for row in rows]), torch.tensor([len(row) for row in rows])


def train(model, n_samples, loss_of, steps, batch, rate):
    """Adam with a rate that falls to nothing; prints the loss now and then."""
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps)
    began = time.time()
    for step in range(steps):
        loss = loss_of(torch.randint(n_samples, (batch,)).tolist())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % (steps // 10) == 0 or step == steps - 1:
            print("  step %5d  loss %.4f  %3.0f s" % (step, loss.item(), time.time() - began), flush=True)
    model.eval()


def reviews(name, attends):
    torch.manual_seed(11)
    known = data.samples(data.review, 1, 8000)
    held_out = data.samples(data.review, 2, HELD_OUT, {text for text, _ in known})
    pieces = data.vocabulary(text for text, _ in known)
    rows, labels = [data.encode(pieces, text) for text, _ in known], torch.tensor([label for _, label in known])
    model = Reviews(len(pieces), len(data.LABELS), attends)

    def loss_of(chosen):
        scores = model(*padded([rows[i] for i in chosen]))[1]
        return torch.nn.functional.cross_entropy(scores, labels[chosen])

    train(model, len(known), loss_of, 3000, 64, 4e-3)
    with torch.no_grad():
        found = model(*padded([data.encode(pieces, text) for text, _ in held_out]))[1].argmax(dim=1).tolist()
        right = sum(label == guess for (_, label), guess in zip(held_out, found))
        cases = []
        for text, label in held_out[:CASES]:
            tokens = data.encode(pieces, text)
            h, scores, _ = model(*padded([tokens]))
            cases.append(({"text": text, "label": label, "tokens": tokens}, {"hidden": h[0], "pooled": scores}))
    print("%s: %d of %d held-out reviews right, vocabulary %d" % (name, right, HELD_OUT, len(pieces)))
    export.export_reviews(name, model, pieces)
    export.write_reference(name, cases, {"reference": "torch " + torch.__version__, "right": right,
                                         "held_out": [[text, label] for text, label in held_out]})


def dates(name):
    torch.manual_seed(12)
    known = data.samples(data.date, 3, 20000, {PICTURE[0]})
    held_out = [PICTURE] + data.samples(data.date, 4, HELD_OUT - 1, {PICTURE[0], *(text for text, _ in known)})
    pieces = data.vocabulary((text for text, _ in known), data.ISO_PIECES)
    rows = [data.encode(pieces, text) for text, _ in known]
    answers = torch.tensor([data.encode_iso(pieces, iso) for _, iso in known])
    starts = torch.full((len(known), 1), data.START)
    fed = torch.cat((starts, answers[:, :-1]), dim=1)   # behind each piece the next one is wanted
    model = Dates(len(pieces))

    def loss_of(chosen):
        logits = model(padded([rows[i] for i in chosen])[0], fed[chosen], data.PAD)[1]
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), answers[chosen].flatten())

    train(model, len(known), loss_of, 1600, 48, 3e-3)
    with torch.no_grad():
        tokens, _ = padded([data.encode(pieces, text) for text, _ in held_out])
        said = torch.full((len(held_out), 1), data.START)
        while said.shape[1] <= answers.shape[1]:   # greedily
            said = torch.cat((said, model(tokens, said, data.PAD)[1][:, -1].argmax(dim=1, keepdim=True)), dim=1)
        wanted = torch.tensor([data.encode_iso(pieces, iso) for _, iso in held_out])
        right = int((said[:, 1:] == wanted).all(dim=1).sum())
        cases = []
        for text, iso in held_out[:CASES]:
            tokens = data.encode(pieces, text)
            decoder_tokens = [data.START] + data.encode_iso(pieces, iso)[:-1]
            read, logits, _ = model(torch.tensor([tokens]), torch.tensor([decoder_tokens]), data.PAD)
            cases.append(({"text": text, "iso": iso, "tokens": tokens, "decoder_tokens": decoder_tokens},
                          {"encoder": read[0], "logits": logits[0]}))
        write_alignment(model, pieces)
    print("%s: %d of %d held-out dates right, vocabulary %d" % (name, right, HELD_OUT, len(pieces)))
    export.export_dates(name, model, pieces)
    export.write_reference(name, cases, {"reference": "torch " + torch.__version__, "right": right,
                                         "held_out": [[text, iso] for text, iso in held_out]})


def write_alignment(model, pieces):
    """The weights of cross-attention, the mean of the heads: what those of mote are compared with."""
    text, iso = PICTURE
    tokens, said = data.encode(pieces, text), [data.START] + data.encode_iso(pieces, iso)[:-1]
    weights = model(torch.tensor([tokens]), torch.tensor([said]), data.PAD)[2][0].mean(dim=0)
    with open(os.path.join(export.FOLDER, "alignment.json"), "w") as file:
        json.dump({"input": [pieces[token] for token in tokens], "output": list(iso),
                   "weights": [[round(w, 4) for w in row] for row in weights[:len(iso)].tolist()]}, file)
        file.write("\n")


MODELS = {"reviews-mean": lambda name: reviews(name, False), "reviews-attention": lambda name: reviews(name, True),
          "dates": dates}

if __name__ == "__main__":
    os.makedirs(export.FOLDER, exist_ok=True)
    for each in sys.argv[1:] or MODELS:
        MODELS[each](each)
