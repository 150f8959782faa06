"""Networks of torchvision and transformers for `umbench export`, built from configurations without reading weights. Each function returns
(model, inputs). TABLE is {network: options of the command line} of those that umbench.torch.survey exports.
"""

import sys
from pathlib import Path

import torch
from torch import nn

sys.path.insert(1, str(Path(__file__).resolve().parent))
from torch_models import llama_lora, unet  # noqa: E402, F401

BF16 = torch.bfloat16


def random_images(batch, image_size=224):
    return (torch.randn(batch, 3, image_size, image_size),)


def random_tokens(batch, text_length, vocabulary_size):
    return (torch.randint(0, vocabulary_size, (batch, text_length)),)


# --- torchvision ---

def torchvision_model(model_name, batch=32, image_size=224, **model_options):
    """(a model of torchvision, random images)."""
    import torchvision
    return torchvision.models.get_model(model_name, weights=None, **model_options), random_images(batch, image_size)


def alexnet():
    return torchvision_model("alexnet", 128)


def vgg16():
    return torchvision_model("vgg16")


def resnet50():
    return torchvision_model("resnet50", 64)


def densenet121():
    return torchvision_model("densenet121")


def inception_v3():
    return torchvision_model("inception_v3", image_size=299, init_weights=False)


def mobilenet_v3():
    return torchvision_model("mobilenet_v3_large", 64)


def efficientnet_v2():
    return torchvision_model("efficientnet_v2_s")


def convnext():
    return torchvision_model("convnext_tiny")


def swin_v2(batch=32):
    return torchvision_model("swin_v2_t", batch, 256)


def maxvit():
    return torchvision_model("maxvit_t")


def regnet(batch=32):
    return torchvision_model("regnet_y_3_2gf", batch)


def shufflenet():
    return torchvision_model("shufflenet_v2_x1_0", 64)


# --- transformers ---

class WithLabels(nn.Module):
    """Wraps a network of transformers: returns its loss for token numbers that are both input and labels."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids):
        return self.model(input_ids=ids, labels=ids).loss


def transformers_model(class_name, config_prefix, batch, text_length, **config_options):
    """(a network of transformers that predicts tokens, with its loss; random texts)."""
    import transformers
    config = getattr(transformers, f"{config_prefix}Config")(**config_options)
    return WithLabels(getattr(transformers, class_name)(config)), random_tokens(batch, text_length, config.vocab_size)


def gpt2(batch=4, text_length=1024, **config_options):
    model, inputs = transformers_model("GPT2LMHeadModel", "GPT2", batch, text_length, **config_options)
    model.model.loss_type = "ForCausalLM"  # without it transformers warns while it computes the loss, which breaks the graph
    return model, inputs


def bert(batch=8, text_length=512, **config_options):
    return transformers_model("BertForMaskedLM", "Bert", batch, text_length, **config_options)


def t5(batch=8, text_length=512, **config_options):
    return transformers_model("T5ForConditionalGeneration", "T5", batch, text_length, decoder_start_token_id=0, use_cache=False, **config_options)


def llama(batch=1, text_length=2048, **config_options):
    sizes = {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8,
             "vocab_size": 128256, "tie_word_embeddings": True}
    return transformers_model("LlamaForCausalLM", "Llama", batch, text_length, **sizes | config_options)


def mixtral(batch=2, text_length=1024, **config_options):
    sizes = {"hidden_size": 1024, "intermediate_size": 3584, "num_hidden_layers": 12, "num_attention_heads": 16, "num_key_value_heads": 4}
    return transformers_model("MixtralForCausalLM", "Mixtral", batch, text_length, **sizes | config_options)


def vit(batch=32, **config_options):
    import transformers
    return transformers.ViTForImageClassification(transformers.ViTConfig(num_labels=1000, **config_options)), random_images(batch)


# --- others ---

class LstmLanguageModel(nn.Module):
    """LSTM layers that predict the next word. Returns the loss."""

    def __init__(self, vocabulary_size, width, layer_count):
        super().__init__()
        self.words, self.lstm, self.head = nn.Embedding(vocabulary_size, width), nn.LSTM(width, width, layer_count, dropout=0.5), nn.Linear(width, vocabulary_size)

    def forward(self, ids):
        states, _ = self.lstm(self.words(ids))
        return nn.functional.cross_entropy(self.head(states[:-1]).flatten(0, 1), ids[1:].flatten())


def lstm(batch=64, text_length=35, vocabulary_size=33278, width=1024, layer_count=2):
    torch._dynamo.config.allow_rnn = True  # without it torch.compile breaks the graph at the layers
    return LstmLanguageModel(vocabulary_size, width, layer_count), random_tokens(text_length, batch, vocabulary_size)


# --- types ---

def to_bf16(model_and_inputs):
    model, inputs = model_and_inputs
    return model.to(BF16), tuple(x.to(BF16) if x.is_floating_point() else x for x in inputs)


def gpt2_to_bf16():
    return to_bf16(gpt2())


# The networks of TO_MEASURE, which torch_steps.py measures in addition to those of torch_models.py. Their batches are so large that the GPU
# takes most of the time, not the launching of kernels.

def regnet_to_bf16(batch=128):
    return to_bf16(regnet(batch))


def alexnet_1024(batch=1024):
    return to_bf16(torchvision_model("alexnet", batch))


def mobilenet_v3_512(batch=512):
    return to_bf16(torchvision_model("mobilenet_v3_large", batch))


def shufflenet_512(batch=512):
    return to_bf16(torchvision_model("shufflenet_v2_x1_0", batch))


def gpt2_16(batch=16):
    return to_bf16(gpt2(batch))


def t5_32(batch=32):
    return to_bf16(t5(batch))


def vit_128(batch=128):
    return to_bf16(vit(batch))


def mixtral_to_bf16():  # in float32 the experts of transformers 5.17 break the graph
    return to_bf16(mixtral())


def mixtral_4(batch=4):
    return to_bf16(mixtral(batch))


def resnet50_half():
    model, inputs = resnet50()
    return model.half().to(memory_format=torch.channels_last), tuple(x.half() for x in inputs)


class WithAutocast(nn.Module):
    """A model under autocast to bfloat16."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        with torch.autocast("cuda", dtype=BF16):
            return self.model(x)


def convnext_casts():
    """convnext() with a forward pass under autocast to bf16."""
    model, inputs = convnext()
    return WithAutocast(model), inputs


def bert_autocast():
    """The same as bert(), under the name that TABLE exports with autocast to bf16."""
    return bert()


TO_MEASURE = (regnet_to_bf16, alexnet_1024, mobilenet_v3_512, shufflenet_512, gpt2_16, t5_32, vit_128, mixtral_4)

TABLE = {f.__name__: () for f in (alexnet, vgg16, resnet50, densenet121, inception_v3, mobilenet_v3, efficientnet_v2, convnext, swin_v2, maxvit,
                                  regnet, shufflenet, gpt2, bert, llama, t5, vit, mixtral_to_bf16, unet, lstm, llama_lora, gpt2_to_bf16,
                                  resnet50_half, convnext_casts)} | {"bert_autocast": ("--autocast", "bf16")}
