"""Held-out networks for benchmarks/torch_steps.py: each function returns (model, inputs). No other file of this repository named these networks
before they were predicted. results/torch/held_out.jsonl has the predictions from before the measurement. A RoBERTa of 32 texts was predicted,
too, but did not run: its texts are longer than its configuration allows."""

import torch
from torch_zoo import to_bf16, transformers_model, torchvision_model


def mnasnet_512(batch=512):
    return to_bf16(torchvision_model("mnasnet1_0", batch))


def wide_resnet_128(batch=128):
    return to_bf16(torchvision_model("wide_resnet50_2", batch))


def squeezenet_512(batch=512):
    return to_bf16(torchvision_model("squeezenet1_1", batch))


def qwen2_4(batch=4):
    return to_bf16(transformers_model("Qwen2ForCausalLM", "Qwen2", batch, 1024, hidden_size=896, intermediate_size=4864, num_hidden_layers=24,
                            num_attention_heads=14, num_key_value_heads=2, vocab_size=151936, tie_word_embeddings=True))


def gpt_neox_8(batch=8):
    return to_bf16(transformers_model("GPTNeoXForCausalLM", "GPTNeoX", batch, 1024, hidden_size=1024, intermediate_size=4096, num_hidden_layers=24,
                            num_attention_heads=16, vocab_size=50304))


def distilbert_64(batch=64):
    return to_bf16(transformers_model("DistilBertForMaskedLM", "DistilBert", batch, 512))


def gemma_4(batch=4):
    return to_bf16(transformers_model("GemmaForCausalLM", "Gemma", batch, 1024, hidden_size=1024, intermediate_size=4096, num_hidden_layers=12,
                            num_attention_heads=8, num_key_value_heads=1, head_dim=128, vocab_size=256000))


def dinov2_64(batch=64):
    import transformers
    model = transformers.Dinov2ForImageClassification(transformers.Dinov2Config(num_labels=1000))
    return to_bf16((model, (torch.randn(batch, 3, 224, 224),)))


# These were predicted after errors that the eight above showed had been corrected.

def phi_4(batch=4):
    return to_bf16(transformers_model("PhiForCausalLM", "Phi", batch, 1024, hidden_size=1024, intermediate_size=4096, num_hidden_layers=16, num_attention_heads=16))


def convnextv2_64(batch=64):
    import transformers
    model = transformers.ConvNextV2ForImageClassification(transformers.ConvNextV2Config(num_labels=1000))
    return to_bf16((model, (torch.randn(batch, 3, 224, 224),)))


def electra_64(batch=64):
    return to_bf16(transformers_model("ElectraForMaskedLM", "Electra", batch, 512))


# These were predicted after the cost model of launches had been revised.

def bloom_8(batch=8):
    return to_bf16(transformers_model("BloomForCausalLM", "Bloom", batch, 1024, hidden_size=1024, n_layer=12, n_head=16, vocab_size=50304))


def olmo_4(batch=4):
    return to_bf16(transformers_model("OlmoForCausalLM", "Olmo", batch, 1024, hidden_size=1024, intermediate_size=4096, num_hidden_layers=16, num_attention_heads=16))


def segformer_128(batch=128):
    import transformers
    model = transformers.SegformerForImageClassification(transformers.SegformerConfig(num_labels=1000))
    return to_bf16((model, (torch.randn(batch, 3, 224, 224),)))


HELD_OUT = (mnasnet_512, wide_resnet_128, squeezenet_512, qwen2_4, gpt_neox_8, distilbert_64, gemma_4, dinov2_64,
            phi_4, convnextv2_64, electra_64, bloom_8, olmo_4, segformer_128)
