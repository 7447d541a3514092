#include "command.h"

namespace fusedmoe::cli {
namespace {

constexpr CommandRow kCommands[] = {
    {"inspect", "Describe a checkpoint: model, MoE layers, shapes, formats, bytes",
     "Examples:\n"
     "  fusedmoe inspect Qwen3-30B-A3B\n"
     "  fusedmoe inspect Mixtral-8x7B --tp 2 --ep 4      what each of 8 ranks would hold\n"
     "  fusedmoe inspect my-model --family my_family.json\n"
     "  fusedmoe inspect --families --markdown           the families table\n",
     declare_inspect},
    {"verify", "Load every MoE layer strictly and compare with recorded outputs",
     "A folder with golden.safetensors is compared with what that file recorded; any other folder\n"
     "is loaded and its coverage reported. Ranks are simulated one after the other.\n\n"
     "Examples:\n"
     "  fusedmoe verify tests/data/golden/trained_qwen3_moe --show\n"
     "  fusedmoe verify Qwen3-30B-A3B --tp 4 --ep 2 --json\n"
     "  fusedmoe verify Mixtral-8x7B --layer 17\n",
     declare_verify},
    {"run", "Run one MoE layer on hidden states from a file",
     "Input tensors:  hidden_states [T, H]; optional: router_logits [T, E], or topk_ids and\n"
     "                topk_weights [T, k], which replace the router; input_ids [T] (hash layers)\n"
     "Output tensors: hidden_states, router_logits, topk_ids, topk_weights, tokens_per_expert\n\n"
     "Examples:\n"
     "  fusedmoe run Qwen3-30B-A3B --layer 5 --input x.safetensors --output y.safetensors\n"
     "  fusedmoe run Mixtral-8x7B --layer 0 --input x.safetensors --output y.safetensors \\\n"
     "      --dtype f32 --threads 4\n",
     declare_run},
    {"bench", "Measure the routed experts and compare with the machine's limits",
     "Percent of the floor: the larger of touched weight bytes / measured read bandwidth and\n"
     "FLOPs / measured fp32 multiply-add peak, divided by the measured time.\n\n"
     "Examples:\n"
     "  fusedmoe bench --shape qwen3_30b_a3b --tokens 1,16,256\n"
     "  fusedmoe bench --shape all --threads 2 --json results.json\n"
     "  fusedmoe bench --checkpoint Mixtral-8x7B --layer 3 --routing zipf --warm\n",
     declare_bench},
    {"kernels", "List the expert kernels: which is chosen for a problem, and why",
     "Examples:\n"
     "  fusedmoe kernels\n"
     "  fusedmoe kernels --shape gpt_oss_20b --weight-dtype f16\n"
     "  fusedmoe kernels --hidden-size 4096 --intermediate-size 14336 --kernel reference\n",
     declare_kernels},
};

}  // namespace

std::span<const CommandRow> commands() noexcept { return kCommands; }

}  // namespace fusedmoe::cli
