#include <gtest/gtest.h>

#include "harness/io/errors.hpp"
#include "harness/study/cell.hpp"
#include "tests/refusal.hpp"

namespace um {
namespace {

experiment changed_by(void (*change)(experiment&)) {
  experiment e;
  e.network = {.name = "alexnet", .batch = 2};
  e.strategy = "swap_all";
  e.ratio = 1.5;
  e.backend = "sim:h200";
  change(e);
  return e;
}

std::string key_with(void (*change)(experiment&)) {
  return complete_cell(changed_by(change)).key;
}

TEST(Key, HoldsWhatDiffersFromTheDefaults) {
  EXPECT_EQ(key_with([](experiment&) {}), "alexnet/b2/train/fused/fp32/swap_all/x1.50/simulated/sim:h200");
  EXPECT_EQ(key_with([](experiment& e) {
              e.network.knobs["insize"] = 448;
              e.network.appends_sgd = true;
              e.strategy_knobs["ahead"] = 5;
              e.mode = run_mode::capped;
            }),
            "alexnet,insize=448/b2/train+sgd/fused/fp32/swap_all,ahead=5/x1.50/capped/sim:h200");
  EXPECT_EQ(key_with([](experiment& e) { e.strategy_knobs["ahead"] = 2; }), key_with([](experiment&) {}));
}

TEST(Key, SaysWhatIsJoinedAndStored) {
  EXPECT_EQ(key_with([](experiment& e) {
              e.network.fusion_mode = fusion::lean;
              e.network.arithmetic = precision::bf16;
            }),
            "alexnet/b2/train/lean/bf16/swap_all/x1.50/simulated/sim:h200");
  EXPECT_EQ(key_with([](experiment& e) {
              e.network.arithmetic = precision::tf32;
              e.network.order = memory_order::nchw;
            }),
            "alexnet/b2/train/fused/tf32,nchw/swap_all/x1.50/simulated/sim:h200");
  EXPECT_EQ(key_with([](experiment& e) { e.network.order = memory_order::nchw; }),
            key_with([](experiment&) {}));
  EXPECT_EQ(key_with([](experiment& e) { e.network.order = memory_order::nhwc; }),
            "alexnet/b2/train/fused/fp32,nhwc/swap_all/x1.50/simulated/sim:h200");
}

TEST(Key, RatiosKeepTheirDigits) {
  EXPECT_NE(key_with([](experiment& e) { e.ratio = 1.125; }).find("/x1.125/"), std::string::npos);
  EXPECT_NE(key_with([](experiment& e) { e.ratio = 1.12; }).find("/x1.12/"), std::string::npos);
  EXPECT_NE(key_with([](experiment& e) { e.ratio = 2; }).find("/x2.00/"), std::string::npos);
  EXPECT_NE(key_with([](experiment& e) { e.ratio = std::nullopt; }).find("/whole/"), std::string::npos);
  EXPECT_NE(key_with([](experiment& e) {
              e.ratio = std::nullopt;
              e.budget = 1000;
            }).find("/1000B/"),
            std::string::npos);
}

TEST(Completed, FillsInKnobsAndMode) {
  const experiment e = complete_cell(changed_by([](experiment&) {})).settings;
  EXPECT_EQ(e.network.knobs.at("insize"), 224);
  EXPECT_EQ(e.strategy_knobs.count("ahead"), 1U);
  EXPECT_EQ(e.mode, run_mode::simulated);
  EXPECT_EQ(complete_cell(changed_by([](experiment& c) { c.backend = "cuda:1"; })).settings.mode,
            run_mode::capped);
}

TEST(Completed, ThePrecisionChoosesTheMemoryOrder) {
  EXPECT_EQ(complete_cell(changed_by([](experiment&) {})).settings.network.order, memory_order::nchw);
  EXPECT_EQ(complete_cell(changed_by([](experiment& e) {
              e.network.arithmetic = precision::bf16;
            })).settings.network.order,
            memory_order::nhwc);
}

TEST(Completed, WorkspaceIsCappedOnAGpuOnly) {
  const auto capped_at = [](const char* backend, std::optional<byte_count> cap) {
    experiment e = changed_by([](experiment&) {});
    e.backend = backend;
    e.workspace_cap = cap;
    return complete_cell(e);
  };
  EXPECT_FALSE(capped_at("sim:h200", std::nullopt).settings.workspace_cap);
  EXPECT_THROW(capped_at("sim:h200", MiB), input_error);
  const cell standard = capped_at("cuda:0", std::nullopt);
  EXPECT_TRUE(standard.settings.workspace_cap);
  EXPECT_EQ(standard.key, "alexnet/b2/train/fused/fp32/swap_all/x1.50/capped/cuda:0");
  EXPECT_EQ(capped_at("cuda:0", MiB).key,
            "alexnet/b2/train/fused/fp32,workspace=1048576B/swap_all/x1.50/capped/cuda:0");
}

TEST(Completed, RefusesWhatCannotBe) {
  const auto refused = [](void (*change)(experiment&)) {
    EXPECT_THROW(complete_cell(changed_by(change)), input_error);
  };
  refused([](experiment& e) { e.network.name = "alexnett"; });
  refused([](experiment& e) { e.network.knobs["insze"] = 224; });
  refused([](experiment& e) { e.network.batch = 0; });
  refused([](experiment& e) { e.network.batch = std::numeric_limits<std::int64_t>::max(); });
  refused([](experiment& e) { e.network.mode = pass::inference, e.network.appends_sgd = true; });
  refused([](experiment& e) { e.strategy = "swap"; });
  refused([](experiment& e) { e.strategy_knobs["ahead"] = -1; });
  refused([](experiment& e) { e.budget = 5; });  // and a ratio
  refused([](experiment& e) { e.backend = "sim:"; });
  refused([](experiment& e) { e.backend = "cuda:x"; });
  refused([](experiment& e) { e.backend = "cuda:0", e.mode = run_mode::simulated; });
  refused([](experiment& e) { e.mode = run_mode::native, e.allow_native = true; });
}

TEST(Completed, APlanIsNoStrategy) {
  EXPECT_THROW(complete_cell(changed_by([](experiment& e) { e.strategy = "plan:swap_all"; })), input_error);
}

TEST(Completed, HasWhatItsNamesStandFor) {
  const cell c = complete_cell(changed_by([](experiment& e) { e.backend = "cuda:3"; }));
  EXPECT_EQ(c.strategy->row.name, "swap_all");
  EXPECT_EQ(c.backend.device, 3);
  EXPECT_EQ(c.network.network->ops.size(), build_network(c.settings.network).ops.size());
  machine stand_in;
  stand_in.name = "mine";
  const cell here = as_simulated_on(c, stand_in);
  EXPECT_EQ(here.key, "alexnet/b2/train/fused/fp32/swap_all/x1.50/capped/sim:mine");
  EXPECT_EQ(with_strategy(here, strategy_named("managed")).planner_machine->name, "mine");
}

TEST(Completed, NativeNeedsItsPermission) {
  const auto native = [](bool allowed) {
    experiment e = changed_by([](experiment&) {});
    e.backend = "cuda:0";
    e.mode = run_mode::native;
    e.allow_native = allowed;
    return complete_cell(e);
  };
  expect_words(refusal<input_error>([&] { native(false); }), {"--allow-native-oversubscription", "hang"});
  EXPECT_EQ(native(true).settings.mode, run_mode::native);
}

}  // namespace
}  // namespace um
