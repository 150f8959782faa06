"""Held-out networks for benchmarks/torch_steps.py: no other file of this repository named them when they were predicted.
results/torch/held_out.jsonl has the predictions that were made before they were measured. A RoBERTa of 32 texts was predicted, too, but did
not run: its texts are longer than its configuration allows. Each function returns (model, inputs); the number in its name is the batch."""

import torch
from torch_zoo import in_bf16, transformers_model, torchvision_model


def mnasnet_512():
    return in_bf16(torchvision_model("mnasnet1_0", 512))


def wide_resnet_128():
    return in_bf16(torchvision_model("wide_resnet50_2", 128))


def squeezenet_512():
    return in_bf16(torchvision_model("squeezenet1_1", 512))


def qwen2_4():
    return in_bf16(transformers_model("Qwen2ForCausalLM", "Qwen2", 4, 1024, hidden_size=896, intermediate_size=4864, num_hidden_layers=24,
                            num_attention_heads=14, num_key_value_heads=2, vocab_size=151936, tie_word_embeddings=True))


def gpt_neox_8():
    return in_bf16(transformers_model("GPTNeoXForCausalLM", "GPTNeoX", 8, 1024, hidden_size=1024, intermediate_size=4096, num_hidden_layers=24,
                            num_attention_heads=16, vocab_size=50304))


def distilbert_64():
    return in_bf16(transformers_model("DistilBertForMaskedLM", "DistilBert", 64, 512))


def gemma_4():
    return in_bf16(transformers_model("GemmaForCausalLM", "Gemma", 4, 1024, hidden_size=1024, intermediate_size=4096, num_hidden_layers=12,
                            num_attention_heads=8, num_key_value_heads=1, head_dim=128, vocab_size=256000))


def dinov2_64():
    import transformers
    model = transformers.Dinov2ForImageClassification(transformers.Dinov2Config(num_labels=1000))
    return in_bf16((model, (torch.randn(64, 3, 224, 224),)))


# Predicted after the errors that the eight above showed had been corrected:

def phi_4():
    return in_bf16(transformers_model("PhiForCausalLM", "Phi", 4, 1024, hidden_size=1024, intermediate_size=4096, num_hidden_layers=16, num_attention_heads=16))


def convnextv2_64():
    import transformers
    model = transformers.ConvNextV2ForImageClassification(transformers.ConvNextV2Config(num_labels=1000))
    return in_bf16((model, (torch.randn(64, 3, 224, 224),)))


def electra_64():
    return in_bf16(transformers_model("ElectraForMaskedLM", "Electra", 64, 512))


# Predicted after the cost model of launches had been revised:

def bloom_8():
    return in_bf16(transformers_model("BloomForCausalLM", "Bloom", 8, 1024, hidden_size=1024, n_layer=12, n_head=16, vocab_size=50304))


def olmo_4():
    return in_bf16(transformers_model("OlmoForCausalLM", "Olmo", 4, 1024, hidden_size=1024, intermediate_size=4096, num_hidden_layers=16, num_attention_heads=16))


def segformer_128():
    import transformers
    model = transformers.SegformerForImageClassification(transformers.SegformerConfig(num_labels=1000))
    return in_bf16((model, (torch.randn(128, 3, 224, 224),)))


HELD_OUT = (mnasnet_512, wide_resnet_128, squeezenet_512, qwen2_4, gpt_neox_8, distilbert_64, gemma_4, dinov2_64,
            phi_4, convnextv2_64, electra_64, bloom_8, olmo_4, segformer_128)
