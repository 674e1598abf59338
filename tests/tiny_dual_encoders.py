"""A CLIP, a SigLIP and a SigLIP 2 with random weights, saved as the hub stores them."""

import io
from pathlib import Path
from string import ascii_lowercase

import pytest

FAMILIES = ("clip", "siglip", "siglip2")
LAYERS = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
}
SIZE, PATCH, MAX_PATCHES, MAX_LENGTH = 24, 8, 16, 40
CAPTIONS = ("a dog runs on the beach", "two cats", "a red boat in the snow")


def save_dual_encoder(folder: Path, family: str = "clip") -> Path:
    """Write weights, tokenizer and image processor into a folder."""
    transformers = pytest.importorskip("transformers", reason="needs `pip install transformers`")
    tokenizer = {
        "clip": _clip_tokenizer,
        "siglip": _siglip_tokenizer,
        "siglip2": _siglip2_tokenizer,
    }
    words = tokenizer[family](transformers, folder)
    text = {
        **LAYERS, "vocab_size": len(words), "max_position_embeddings": MAX_LENGTH,
        "bos_token_id": words.bos_token_id, "eos_token_id": words.eos_token_id,
        "pad_token_id": words.pad_token_id,
    }  # fmt: skip
    vision = {**LAYERS, "image_size": SIZE, "patch_size": PATCH}
    if family == "clip":
        config = transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=12)
        network = transformers.CLIPModel(config)
        images = transformers.CLIPImageProcessorPil(
            size={"shortest_edge": SIZE}, crop_size={"height": SIZE, "width": SIZE}
        )
        processor = transformers.CLIPProcessor(images, words)
    elif family == "siglip":
        text["projection_size"] = LAYERS["hidden_size"]
        config = transformers.SiglipConfig(text_config=text, vision_config=vision)
        network = transformers.SiglipModel(config)
        images = transformers.SiglipImageProcessorPil(size={"height": SIZE, "width": SIZE})
        processor = transformers.SiglipProcessor(images, words)
    else:
        text["projection_size"] = LAYERS["hidden_size"]
        vision = {**LAYERS, "patch_size": PATCH, "num_patches": MAX_PATCHES}
        config = transformers.Siglip2Config(text_config=text, vision_config=vision)
        network = transformers.Siglip2Model(config)
        images = transformers.Siglip2ImageProcessorPil(
            patch_size=PATCH, max_num_patches=MAX_PATCHES
        )
        processor = transformers.Siglip2Processor(images, words)
    network.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def _clip_tokenizer(transformers, folder: Path):
    letters = [*ascii_lowercase, *(f"{letter}</w>" for letter in ascii_lowercase)]
    words = {word: number for number, word in enumerate(letters)}
    special = {"<|startoftext|>": len(words), "<|endoftext|>": len(words) + 1}
    return transformers.CLIPTokenizer(
        vocab={**words, **special}, merges=[], model_max_length=MAX_LENGTH
    )


def _siglip_tokenizer(transformers, folder: Path):
    sentencepiece = pytest.importorskip("sentencepiece")
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([*CAPTIONS, ascii_lowercase] * 4),
        model_writer=model,
        vocab_size=60,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "spiece.model").write_bytes(model.getvalue())
    return transformers.SiglipTokenizer(str(folder / "spiece.model"), model_max_length=MAX_LENGTH)


def _siglip2_tokenizer(transformers, folder: Path):
    special = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"]
    words = {word: number for number, word in enumerate([*special, "▁", *ascii_lowercase])}
    return transformers.Siglip2Tokenizer(vocab=words, merges=[], model_max_length=MAX_LENGTH)
