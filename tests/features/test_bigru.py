import pytest
import torch
from support import load_fixture

from diverset.errors import InputError, ShapeError
from diverset.features import BiGruFeatures
from diverset.types import Padded


def test_bigru_equals_the_released_code():
    numbers = load_fixture("encoders")
    module = BiGruFeatures(dim=32, vocabulary_size=50, word_width=20).eval()
    weights = {"embedding.weight": numbers["sd.txt_enc.embed.weight"]}
    weights |= {
        key.replace("sd.txt_enc.rnn.", "gru."): value
        for key, value in numbers.items()
        if key.startswith("sd.txt_enc.rnn.")
    }
    module.load_state_dict(weights)
    words = Padded.from_lengths(numbers["in.txt"], numbers["in.txt_len"])
    found = module(words)
    real = words.mask
    torch.testing.assert_close(found.local[real], numbers["out.txt_local"][real])
    torch.testing.assert_close(found.pooled, numbers["out.txt_global"], atol=2e-6, rtol=0)


def test_a_caption_does_not_depend_on_its_batch():
    module = BiGruFeatures(dim=6, vocabulary_size=9, word_width=4).eval()
    captions = [torch.tensor([1, 5, 6, 2]), torch.tensor([1, 7, 2])]
    together = module(Padded.of(captions))
    for row, caption in enumerate(captions):
        alone = module(Padded.of([caption]))
        torch.testing.assert_close(together.pooled[row], alone.pooled[0])
        torch.testing.assert_close(together.positions[row, : len(caption)], alone.positions[0])


def test_word_vectors_replace_the_embedding():
    module = BiGruFeatures(dim=6, vocabulary_size=9, word_width=4)
    vectors = torch.randn(9, 4)
    module.set_words(vectors)
    assert torch.equal(module.embedding.weight, vectors)
    with pytest.raises(ShapeError, match=r"\(9, 5\)"):
        module.set_words(torch.randn(9, 5))


def test_unknown_word_ids_and_floats_are_rejected():
    with pytest.raises(InputError, match="1 to 9, but the vocabulary has 9 words"):
        BiGruFeatures(6, 9, 4)(Padded.of([torch.tensor([1, 9, 2])]))
    with pytest.raises(ShapeError, match="float32"):
        BiGruFeatures(6, 9, 4)(Padded.of([torch.randn(3)]))
