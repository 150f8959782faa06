"""Measures peak memory and step time of networks under torch.compile and compares them with umbench's predictions.

    python3 benchmarks/torch_steps.py predict --out results/torch/predicted.jsonl       no GPU: what umbench export says
    python3 benchmarks/torch_steps.py measure --out steps.jsonl --predicted results/torch/predicted.jsonl
    python3 benchmarks/torch_steps.py table --out results/torch/steps.jsonl --predicted results/torch/predicted.jsonl

A step is forward and backward pass in bfloat16 with torch.compile's defaults. Each network has its own process. All compile at the same time.
Then one network after the other uses the GPU: first the steps of all are measured, then their operators one by one, from which
the steps are predicted again. Steps that the file has are not measured again, operators are. Needs PyTorch 2.9 or later; `measure` needs a GPU.
"""

import argparse
import gc
import json
import os
import selectors
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "python"), str(HERE)]
WARM_UP_STEPS, TIMED_STEPS = 4, 20
TITLES = {"resnet50": "ResNet-50", "gpt2_medium": "GPT-2 medium", "vit_b16": "ViT-B/16", "vgg16": "VGG-16", "convnext_tiny": "ConvNeXt-T",
          "efficientnet_b0": "EfficientNet-B0", "unet": "U-Net", "bert_large": "BERT large", "llama_1b": "Llama 1B", "mixture": "mixture of experts",
          "regnet_to_bf16": "RegNet", "llama_lora": "Llama 1B with LoRA", "alexnet_1024": "AlexNet", "mobilenet_v3_512": "MobileNetV3",
          "shufflenet_512": "ShuffleNetV2", "mixtral_4": "Mixtral", "gpt2_16": "GPT-2", "t5_32": "T5", "vit_128": "ViT",
          "mnasnet_512": "MNASNet", "wide_resnet_128": "Wide ResNet-50", "squeezenet_512": "SqueezeNet", "qwen2_4": "Qwen2",
          "gpt_neox_8": "GPT-NeoX", "distilbert_64": "DistilBERT", "gemma_4": "Gemma", "dinov2_64": "DINOv2",
          "phi_4": "Phi", "convnextv2_64": "ConvNeXtV2", "electra_64": "ELECTRA", "bloom_8": "BLOOM", "olmo_4": "OLMo", "segformer_128": "SegFormer"}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("do", choices=["predict", "measure", "table"])
    parser.add_argument("--out", required=True, metavar="FILE.jsonl", help="a line for each network")
    parser.add_argument("--machine", default="h100-sxm-80g", help="machine file whose rates are used (h100-sxm-80g)")
    parser.add_argument("--predicted", metavar="FILE.jsonl", help="what `predict` wrote; the lines of `measure` hold it")
    parser.add_argument("--only", metavar="NAMES", help="networks, by commas; all where not given")
    parser.add_argument("--compile-within", type=float, default=240, metavar="SECONDS", help="networks that take longer are left out (240)")
    parser.add_argument("--details", metavar="FOLDER", help="keep graphs, Inductor's code, what lives at the peak, the profiler's kernels and errors there")
    parser.add_argument("--one", choices=["operators", "both"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.names = options.only.split(",") if options.only else [f.__name__ for f in all_model_functions()] if options.do != "table" else []
    return options


def all_model_functions():
    import torch_held_out
    import torch_models
    import torch_zoo
    return torch_models.PUBLISHED + torch_models.HELD_OUT + torch_zoo.TO_MEASURE + torch_held_out.HELD_OUT


def model_function(network):
    return next(f for f in all_model_functions() if f.__name__ == network)


def main():
    options = parse_arguments()
    if options.details:
        Path(options.details).mkdir(parents=True, exist_ok=True)
    if options.one:
        return run_child_process(options.names[0], options)
    if options.do == "predict":
        entries = []
        for network in options.names:
            entries.append(predict_network(network, options)[0])
            write_entries(options.out, entries)
        return 0
    if options.do == "table":
        print("\n".join(table_of_errors(read_entries(options.out), read_entries(options.predicted))))
        return 0
    return measure_all(options)


def read_entries(path):
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def table_of_errors(measured_entries, predicted_entries):
    """[lines of a Markdown table] with measured values and the errors in % of two predictions: that of `predicted_entries`, by the rates of the
    machine file and a launch cost of launches.KERNEL_NS on the CPU, and that of `measured_entries`, by operators that were measured."""
    rates_prediction_of_network = {entry["network"]: entry["predicted"] for entry in predicted_entries}
    rows = ["| | peak, GiB | `--machine` | `--measure` | step, ms | `--machine` | `--measure` |", "|---|---:|---:|---:|---:|---:|---:|"]
    for entry in measured_entries:
        figures, rates_prediction = entry["measured"], rates_prediction_of_network[entry["network"]]
        # Predictions without kernel_ns are of an older method.
        operators_prediction = entry["predicted"] if "kernel_ns" in entry["predicted"] else {}
        step_ns, library_bytes = figures["step_ns"], figures["library_bytes"]
        peak_bytes = figures["peak_bytes"] - (figures["base_bytes"] - figures["given_bytes"] if "given_bytes" in figures else 0)
        cells = [f"{peak_bytes / 2**30:.2f}",
                 error_text(rates_prediction, "peak_bytes", peak_bytes, library_bytes),
                 error_text(operators_prediction, "peak_with_workspaces_bytes", peak_bytes, library_bytes),
                 f"{step_ns / 1e6:.1f}", error_text(rates_prediction, "step_launched_ns", step_ns),
                 error_text(operators_prediction, "step_measured_launched_ns", step_ns)]
        rows.append(f"| {TITLES[entry['network']]} | {' | '.join(cells)} |")
    return rows


def error_text(predictions, key, measured_value, extra_bytes=0):
    """The error of a prediction in %, as text; empty without a prediction. `extra_bytes` are measured, but no part of the prediction."""
    return f"{100 * ((predictions[key] + extra_bytes) / measured_value - 1):+.1f}" if key in predictions else ""


def write_entries(path, entries):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text("".join(json.dumps(line) + "\n" for line in entries), encoding="utf-8")


# --- measuring one network after the other ---

def measure_all(options):
    """Starts a process for each network, waits until all have compiled, and lets one after the other measure."""
    prediction_of_network = {}
    if options.predicted:
        prediction_of_network = {entry["network"]: entry["predicted"]
                                 for entry in map(json.loads, Path(options.predicted).read_text(encoding="utf-8").splitlines())}
    entry_of_network = {entry["network"]: entry for entry in read_entries(options.out)} if Path(options.out).exists() else {}
    already_measured = set(entry_of_network)
    process_of_network = {network: start_process(network, network in already_measured, options) for network in options.names}
    compiled_networks = wait_until_compiled(process_of_network, options.compile_within)
    for steps_or_operators in ("steps", "operators"):
        for network in (compiled_networks if steps_or_operators == "operators"
                        else [network for network in compiled_networks if network not in already_measured]):
            answer = request_measurement(process_of_network[network])
            if answer is None:
                print(f"{network}: no {steps_or_operators}: exit code {process_of_network[network].wait()}", flush=True)
                continue
            entry_of_network[network] = entry_of_network.get(network, {}) | answer
            entry_of_network[network]["predicted"] = (prediction_of_network.get(network, entry_of_network[network].get("predicted", {}))
                                                      | answer.get("by_measured", {}))
            write_entries(options.out, [{key: value for key, value in entry.items() if key != "by_measured"} for entry in entry_of_network.values()])
            print(result_text(entry_of_network[network], steps_or_operators), flush=True)
        compiled_networks = [network for network in compiled_networks if network in entry_of_network]
    return 0 if entry_of_network.keys() >= set(options.names) else 1


def start_process(network, has_measured_steps, options):
    command = [sys.executable, __file__, "measure", "--one", "operators" if has_measured_steps else "both", "--only", network, "--out", options.out, "--machine", options.machine]
    error_stream = open(Path(options.details, f"{network}.err") if options.details else os.devnull, "w", encoding="utf-8")
    environment = ({"TORCHINDUCTOR_COMPILE_THREADS": "2"}
                   | ({"TORCHINDUCTOR_CACHE_DIR": f"{options.details}/{network}.inductor"} if options.details else {}))
    return subprocess.Popen(command + (["--details", options.details] if options.details else []), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=error_stream, text=True, env=os.environ | environment)


def wait_until_compiled(processes, max_seconds):
    """Returns the networks whose processes reported in time that they had compiled, in order. Kills the others."""
    selector, compiled_networks, end_time = selectors.DefaultSelector(), [], time.monotonic() + max_seconds
    for network, process in processes.items():
        selector.register(process.stdout, selectors.EVENT_READ, network)
    while selector.get_map() and time.monotonic() < end_time:
        for key, _ in selector.select(timeout=1):
            selector.unregister(key.fileobj)
            message = processes[key.data].stdout.readline().strip()
            print(f"{key.data}: {message or 'failed'} {max_seconds - (end_time - time.monotonic()):.0f} s", flush=True)
            compiled_networks += [key.data] if message else []
    for network in set(processes) - set(compiled_networks):
        processes[network].kill()
    return [network for network in processes if network in compiled_networks]


def request_measurement(process):
    """Lets a process do its next measurement and returns its answer; None if the process ended."""
    try:
        process.stdin.write("\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline() or "null")
    except (BrokenPipeError, ValueError):
        return None


def result_text(entry, steps_or_operators):
    predicted, measured = entry["predicted"], entry["measured"]
    peak_bytes, step_ns = measured["peak_bytes"], measured["step_ns"]
    if steps_or_operators == "operators":
        return (f"{entry['network']:16} by measured operators: peak "
                f"{error_text(predicted, 'peak_with_workspaces_bytes', peak_bytes, measured['library_bytes'])}, "
                f"step {error_text(predicted, 'step_by_measured_ns', step_ns)}, launched {error_text(predicted, 'step_measured_launched_ns', step_ns)}")
    return (f"{entry['network']:16} peak {peak_bytes / 2**30:6.2f} GiB, "
            f"told {error_text(predicted, 'peak_bytes', peak_bytes, measured['library_bytes'])}; saved "
            f"{measured['saved_bytes'] / 2**30:6.2f}, told {error_text(predicted, 'saved_bytes', measured['saved_bytes'])}; step {step_ns / 1e6:7.2f} ms, told "
            f"{error_text(predicted, 'step_by_rates_ns', step_ns)}; the CPU took {measured['host_ns'] / 1e6:.2f} ms; kernels {measured['kernels']}, told {predicted.get('kernels', '?')}, "
            f"busy {sum(measured['kernel_ns'].values()) / 1e6:.2f} ms")


# --- one network ---

def run_child_process(network, options):
    """The process of one network: compiles, reports that, and waits for its turn before each measurement."""
    from umbench.torch import measuring
    answer_stream = sys.stdout
    sys.stdout = sys.stderr  # output of libraries must not mix with the answers
    compiled = CompiledNetwork(network, options) if options.one == "both" else None
    converted, operator_times = predict_network(network, options)[1], measuring.OperatorTimes()
    operator_times.compile_kernels(converted)
    send_and_await_turn(answer_stream, "compiled")
    if compiled:
        send_and_await_turn(answer_stream, json.dumps(compiled.measure_steps()))
    send_and_await_turn(answer_stream, json.dumps({"by_measured": predict_by_measured_operators(converted, operator_times, options)}))
    return 0


def send_and_await_turn(stream, text):
    """Writes a line and waits until the parent writes one."""
    stream.write(text + "\n")
    stream.flush()
    sys.stdin.readline()


def predict_network(network, options):
    """Predicts a network without a GPU. Returns (the entry to write to --out as a dictionary, the convert.Converted)."""
    import torch

    from umbench.torch import convert, launches, liveness, rates
    converted = convert.convert_model(model_function(network), name=network)
    document = converted.document
    rates.set_durations_by_figures(converted, json.loads((HERE.parent / f"results/machines/{options.machine}.json").read_text(encoding="utf-8")))
    predicted = {"peak_bytes": liveness.peak_and_operator_of(document)[0], "saved_bytes": liveness.saved_bytes(document), "operators": len(document["ops"]),
            "kernels": sum(converted.launches.get(op["name"], 1) for op in document["ops"]),
            "step_by_rates_ns": sum(op["duration_ns"] for op in document["ops"])}
    if options.details:
        Path(options.details, f"{network}.json").write_text(convert.document_text(document), encoding="utf-8")
    launches.add_launch_waits(converted)
    predicted["step_launched_ns"] = sum(op["duration_ns"] for op in document["ops"])
    return {"schema": 1, "kind": "torch_step", "network": network, "torch": torch.__version__, "machine": options.machine, "predicted": predicted}, converted


def predict_by_measured_operators(converted, operator_times, options):
    """The predictions from times of operators that were measured one by one."""
    from umbench.torch import convert, launches, liveness, measuring
    measuring.measure_durations(converted, operator_times)
    ops = converted.document["ops"]
    if options.details:
        name = converted.document["name"]
        Path(options.details, f"{name}.measured.json").write_text(convert.document_text(converted.document), encoding="utf-8")
        launch_facts = {op["name"]: [launches.relative_launch_cost(converted, op["name"]), converted.launches.get(op["name"], 1),
                                     op["name"] in converted.generated]
                        for op in ops}
        Path(options.details, f"{name}.host.json").write_text(json.dumps(launch_facts), encoding="utf-8")
    predicted = {"step_by_measured_ns": sum(op["duration_ns"] for op in ops), "peak_with_workspaces_bytes": liveness.peak_and_operator_of(converted.document)[0],
            "by_measured_alone_ns": sum(op["duration_ns"] for op in ops if op["name"] in converted.alone)}
    launching_ns = launches.add_launch_waits(converted)
    return predicted | {"step_measured_launched_ns": sum(op["duration_ns"] for op in ops), "launching_ns": launching_ns, "kernel_ns": launches.KERNEL_NS}


class CompiledNetwork:
    """A compiled network on the GPU. measure_steps() measures its training steps and then frees its memory."""

    def __init__(self, network, options):
        import torch
        self.name, self.options = network, options
        with torch.device("cuda"):
            self.model, self.inputs = model_function(network)()
        self.base = torch.cuda.memory_allocated()
        self.loss_of = torch.compile(with_loss(self.model.train()))
        self.warm_up()

    def warm_up(self):
        """Compiles. Tries again if memory is short, since other networks compile at the same time."""
        import torch
        end_time = time.monotonic() + self.options.compile_within
        while True:
            try:
                return [self.run_step() for _ in range(2)]
            except torch.OutOfMemoryError:
                if time.monotonic() > end_time:
                    raise
            finally:
                self.free_unneeded_memory()
            time.sleep(2)

    def run_step(self):
        """Runs a step. Returns (nanoseconds on the GPU, on the CPU, bytes saved for the backward pass, peak bytes, nanoseconds of the
        forward pass on the CPU)."""
        import torch
        self.model.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        begin_event, end_event = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        bytes_before, begin_ns = torch.cuda.memory_allocated(), time.perf_counter_ns()
        begin_event.record()
        loss = self.loss_of(*self.inputs)
        saved_bytes, forward_ns = torch.cuda.memory_allocated() - bytes_before, time.perf_counter_ns() - begin_ns
        loss.backward()
        end_event.record()
        host_ns = time.perf_counter_ns() - begin_ns
        torch.cuda.synchronize()
        self.loss = float(loss)
        return round(begin_event.elapsed_time(end_event) * 1e6), host_ns, saved_bytes, torch.cuda.max_memory_allocated(), forward_ns

    def free_unneeded_memory(self):
        """Frees the memory that the network does not need until its next turn."""
        import torch
        self.model.zero_grad(set_to_none=True)
        gc.collect()
        torch.cuda.empty_cache()

    def measure_steps(self):
        """The line of the file for the network, without predictions."""
        import torch
        steps = [self.run_step() for _ in range(WARM_UP_STEPS + TIMED_STEPS)][WARM_UP_STEPS:]
        reserved_bytes = torch.cuda.max_memory_reserved()
        kernel_count, ns_by_kind = profile_kernels(self.loss_of, self.model, self.inputs, self.name, self.options)
        if self.options.details:
            from umbench.torch.bench import gpu_events
            Path(self.options.details, f"{self.name}.peak.json").write_text(
                json.dumps(gpu_events.run_and_list_blocks_at_peak(self.run_step), indent=0),
                encoding="utf-8")
        self.free_unneeded_memory()
        library_bytes = torch.cuda.memory_allocated() - self.base
        measured = {"peak_bytes": max(step[3] for step in steps), "saved_bytes": steps[-1][2],
                    "base_bytes": self.base, "library_bytes": library_bytes,
                    "reserved_bytes": reserved_bytes, "step_ns": round(statistics.median(step[0] for step in steps)),
                    "samples_ns": [step[0] for step in steps],
                    "host_ns": round(statistics.median(step[1] for step in steps)),
                    "host_forward_ns": round(statistics.median(step[4] for step in steps)),
                    "kernels": kernel_count, "kernel_ns": ns_by_kind, "loss": self.loss}
        del self.model, self.inputs, self.loss_of
        torch.cuda.empty_cache()
        return {"schema": 1, "kind": "torch_step", "network": self.name, "gpu": torch.cuda.get_device_name(), "torch": torch.__version__,
                "cuda": torch.version.cuda, "machine": self.options.machine, "measured": measured}


def with_loss(model):
    """A module that returns the loss of the model: the model's own, or that of its logits with labels of zeros."""
    import torch
    from torch.nn import functional

    from umbench.torch.capture import loss_or_first_tensor

    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *inputs):
            result = loss_or_first_tensor(self.model(*inputs))
            return result if result.dim() == 0 else functional.cross_entropy(result, torch.zeros(result.shape[0], dtype=torch.long, device=result.device))

    return Loss()


def profile_kernels(loss_of, model, inputs, network, options):
    """(number of kernels and copies of a step, {"generated", "libraries", "copies": nanoseconds})."""
    import torch
    model.zero_grad(set_to_none=True)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA, torch.profiler.ProfilerActivity.CPU]) as profile:
        loss_of(*inputs).backward()
        torch.cuda.synchronize()
    gpu_events = [e for e in profile.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    ns_by_kind = {}
    for event in gpu_events:
        kind = "generated" if event.name.startswith("triton") else "copies" if event.name.startswith(("Mem", "mem")) else "libraries"
        ns_by_kind[kind] = ns_by_kind.get(kind, 0) + round(event.device_time_total * 1000)
    if options.details:
        Path(options.details).mkdir(parents=True, exist_ok=True)
        Path(options.details, f"{network}.kernels.txt").write_text(
            "".join(f"{e.time_range.start - gpu_events[0].time_range.start:9.1f} {e.device_time_total:9.1f} {e.name[:160]}\n"
                    for e in gpu_events),
            encoding="utf-8")
    return len(gpu_events), ns_by_kind


if __name__ == "__main__":
    sys.exit(main())
