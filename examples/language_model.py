"""A language model fine-tuned on reports: who was in it, what comes out, what canaries show.

Measured on made-up reports (n = 400 trained on and 400 held out, seed 0): an attacker recognises
20 % (13 to 32) of them at 10 % false positives; canaries that stand 16 times show epsilon 0.28 of
the 0.93 that so many could; eight references raise the AUC to 0.69. 122 s on one busy core of an
AMD EPYC. LETHE_QUICK=1 takes fewer reports.
"""

import os
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

import lethe
from lethe.membership.language.canaries import CanaryWatch, plan_text_canaries
from lethe.membership.language.fine_tune import FineTune, fine_tune, save_model
from lethe.membership.language.models import load_model, quiet
from lethe.membership.language.tokens import scored_together

QUICK = os.environ.get("LETHE_QUICK") == "1"
SIDE, EPOCHS, PAIRS, PLANTED = (100, 3, 2, 30) if QUICK else (400, 12, 4, 90)
place, rng = Path(mkdtemp()), np.random.default_rng(0)

# %% Reports, and a base model that has read others
# Made up here: each has a name and a room that nobody could guess.
WORDS = "worker driver nurse fell slipped burned arm leg hand ladder oven truck".split()


def report() -> str:
    who, did, part, where = (WORDS[rng.integers(at, at + 3)] for at in (0, 3, 6, 9))
    name, room = "".join(rng.choice("ka lo mi ru te so na vi".split(), 3)), rng.integers(100, 999)
    return f"the {who} {name} {did} at the {where} and hurt the {part}, treated in room {room}"


public, texts = ([report() for _ in range(n)] for n in (min(400, 2 * SIDE), 2 * SIDE))
letters = pre_tokenizers.ByteLevel.alphabet()
made = Tokenizer(models.BPE())
made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(), decoders.ByteLevel()
trainer = trainers.BpeTrainer(
    vocab_size=400, show_progress=False, special_tokens=["<end>"], initial_alphabet=letters
)
made.train_from_iterator(public, trainer)
tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<end>")
size = {"vocab_size": len(tokenizer), "n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 64}
with quiet():
    base = transformers.GPT2LMHeadModel(transformers.GPT2Config(**size))
fine_tune(base, tokenizer, public, FineTune(4, 5e-3, 32))
save_model(base, tokenizer, place / "base")

# %% Canaries are planted before training, and the training is watched

plan = plan_text_canaries(texts[:SIDE], tokenizer, PLANTED, repetitions=(1, 16))
watch = CanaryWatch(plan, tokenizer)
watch.begin(base)
fine_tune(base, tokenizer, plan.insert(texts[:SIDE]), FineTune(EPOCHS, 4e-3, 32), see=watch.see)
save_model(base, tokenizer, place / "tuned")
# %% The audit

rows = {"text": texts, "member": np.arange(2 * SIDE) < SIDE}
asked = {"canaries": plan, "seen": watch.end(base), "save": False, "quiet": True}
found = lethe.audit_language_model(place / "tuned", rows, base=place / "base", **asked)
print(*found.verdict["words"], sep="\n")

# %% Reference models: LiRA and RMIA on eight fine-tunes of random halves

members = np.array([rng.permutation(2 * SIDE) < SIDE for _ in range(PAIRS)]).repeat(2, 0)
members[1::2] = ~members[1::2]
signals = np.empty(members.shape, np.float32)
for at, inside in enumerate(members):
    one = load_model(place / "base")
    own = np.array(texts)[inside].tolist()
    fine_tune(one.module, tokenizer, own, FineTune(EPOCHS, 4e-3, 32, seed=at))
    for row, (scores,) in scored_together((one,), one.ids(texts)):
        signals[at, row] = scores.logprob.mean()
judged = lethe.audit_scores(signals, members, save=False, quiet=True)
for name, attack in judged.candidates[0]["attacks"].items():
    print(f"with references, {name}: AUC {attack['auc']['value']:.2f}")
