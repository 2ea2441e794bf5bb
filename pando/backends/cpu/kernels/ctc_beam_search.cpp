// Prefix beam search (Hannun et al., "First-Pass Large Vocabulary Continuous Speech Recognition
// using Bi-Directional Recurrent DNNs", 2014), one thread a sample. Sequences are nodes of a tree.
#include "pando/backends/cpu/kernels/ctc_beam_search.hpp"

#include <algorithm>
#include <cmath>

#include "pando/backends/cpu/kernels/element.hpp"
#include "pando/backends/cpu/kernels/float_rows.hpp"
#include "pando/backends/cpu/kernels/index.hpp"
#include "pando/backends/cpu/kernels/log_sum.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

struct Node {
  std::int32_t parent, label;
  std::int32_t first_child, next_sibling;  // -1: none
  std::int32_t beam;                       // its place among the beams, or -1
};

/// A label sequence with the logarithms of its probabilities; `label` is what follows `node` where
/// the sequence has no node yet, else -1.
struct Beam {
  std::int32_t node, label;
  double with_blank, without_blank, total;
};

bool is_better(const Beam& a, const Beam& b) {
  if (a.total != b.total) return a.total > b.total;
  return a.node != b.node ? a.node < b.node : a.label < b.label;
}

struct BeamProblem {
  std::int64_t steps = 0, batch = 0, classes = 0, blank = 0, width = 0, paths = 0;
  DType length_dtype{};
  int threads = 1;

  std::int64_t max_nodes() const { return steps * width + 1; }
  std::size_t node_bytes() const {
    return scratch_aligned(static_cast<std::size_t>(max_nodes()) * sizeof(Node));
  }
  std::size_t beam_bytes() const {
    return scratch_aligned(static_cast<std::size_t>(width) * sizeof(Beam));
  }
  /// Nodes, beams, the beams of the next step, and a flag for each beam and label.
  std::size_t slot_bytes() const {
    return node_bytes() + 2 * beam_bytes() +
           scratch_aligned(static_cast<std::size_t>(width * classes));
  }
};

template <class T>
class BeamSearch {
 public:
  BeamSearch(const BeamProblem& problem, std::byte* scratch)
      : p_(problem),
        nodes_(reinterpret_cast<Node*>(scratch)),
        beams_(reinterpret_cast<Beam*>(scratch + problem.node_bytes())),
        next_(reinterpret_cast<Beam*>(scratch + problem.node_bytes() + problem.beam_bytes())),
        is_kept_(scratch + problem.node_bytes() + 2 * problem.beam_bytes()) {}

  /// `log_probs`: of the sample at step 0.
  void run(const T* log_probs, std::int64_t steps) {
    nodes_[0] = {-1, -1, -1, -1, 0};
    num_nodes_ = 1;
    beams_[0] = {0, -1, 0.0, kLogOfZero, 0.0};
    num_beams_ = 1;
    for (std::int64_t t = 0; t < steps; ++t) advance(log_probs + t * p_.batch * p_.classes);
    std::sort(beams_, beams_ + num_beams_, is_better);
  }

  void write(T* scores, std::int32_t* lengths, std::int32_t* labels) const {
    for (std::int64_t i = 0; i < p_.paths; ++i, labels += p_.steps) {
      const bool exists = i < num_beams_;
      scores[i] = static_cast<T>(exists ? beams_[i].total : kLogOfZero);
      std::int64_t length = 0;
      for (std::int32_t n = exists ? beams_[i].node : 0; n > 0; n = nodes_[n].parent) ++length;
      lengths[i] = static_cast<std::int32_t>(length);
      std::fill(labels + length, labels + p_.steps, static_cast<std::int32_t>(p_.blank));
      for (std::int32_t n = exists ? beams_[i].node : 0; n > 0; n = nodes_[n].parent) {
        labels[--length] = nodes_[n].label;
      }
    }
  }

 private:
  /// One step: every beam stays as it is or gets a label more.
  void advance(const T* row) {
    std::fill_n(is_kept_, num_beams_ * p_.classes, std::byte{0});
    num_next_ = 0;
    for (std::int64_t i = 0; i < num_beams_; ++i) keep(beams_[i], row);
    for (std::int64_t i = 0; i < num_beams_; ++i) {
      for (std::int64_t c = 0; c < p_.classes; ++c) {
        if (c == p_.blank || is_kept_[i * p_.classes + c] != std::byte{0}) continue;
        const double score = extended(beams_[i], c, row);
        offer({beams_[i].node, static_cast<std::int32_t>(c), kLogOfZero, score, score});
      }
    }
    for (std::int64_t i = 0; i < num_beams_; ++i) nodes_[beams_[i].node].beam = -1;
    std::swap(beams_, next_);
    num_beams_ = num_next_;
    for (std::int64_t i = 0; i < num_beams_; ++i) {
      if (beams_[i].label >= 0) beams_[i].node = child(beams_[i].node, beams_[i].label);
      beams_[i].label = -1;
      nodes_[beams_[i].node].beam = static_cast<std::int32_t>(i);
    }
  }

  /// ln of the probability of `beam` followed by the label c at this step.
  double extended(const Beam& beam, std::int64_t c, const T* row) const {
    // The same label again stands for a new one only after a blank.
    const bool repeats = nodes_[beam.node].label == c;
    return (repeats ? beam.with_blank : beam.total) + static_cast<double>(row[c]);
  }

  /// The beam without a new label: a blank, its last label again, or the step from its parent.
  void keep(const Beam& beam, const T* row) {
    const Node& node = nodes_[beam.node];
    Beam kept{beam.node, -1, beam.total + static_cast<double>(row[p_.blank]), kLogOfZero, 0.0};
    if (node.parent >= 0) {
      kept.without_blank = beam.without_blank + static_cast<double>(row[node.label]);
      if (const std::int32_t before = nodes_[node.parent].beam; before >= 0) {
        is_kept_[before * p_.classes + node.label] = std::byte{1};
        kept.without_blank = log_sum(kept.without_blank, extended(beams_[before], node.label, row));
      }
    }
    kept.total = log_sum(kept.with_blank, kept.without_blank);
    offer(kept);
  }

  /// Puts it among the best of the next step: a heap with the worst of them first.
  void offer(const Beam& beam) {
    if (num_next_ < p_.width) {
      next_[num_next_++] = beam;
      std::push_heap(next_, next_ + num_next_, is_better);
    } else if (is_better(beam, next_[0])) {
      std::pop_heap(next_, next_ + num_next_, is_better);
      next_[num_next_ - 1] = beam;
      std::push_heap(next_, next_ + num_next_, is_better);
    }
  }

  /// The node of a sequence is found again after the sequence was dropped.
  std::int32_t child(std::int32_t parent, std::int32_t label) {
    for (std::int32_t n = nodes_[parent].first_child; n >= 0; n = nodes_[n].next_sibling) {
      if (nodes_[n].label == label) return n;
    }
    nodes_[num_nodes_] = {parent, label, -1, nodes_[parent].first_child, -1};
    return nodes_[parent].first_child = num_nodes_++;
  }

  const BeamProblem& p_;
  Node* nodes_;
  Beam* beams_;
  Beam* next_;
  std::byte* is_kept_;
  std::int32_t num_nodes_ = 0;
  std::int64_t num_beams_ = 0, num_next_ = 0;
};

template <class T>
RunFunction run_beam_search(const BeamProblem& p) {
  return [p](std::byte* const* operands, std::byte* scratch) {
    const IndexReader lengths(operands[1], p.length_dtype);
    parallel_slots(
        p.threads, p.batch, 1, [&](std::int64_t s, std::int64_t begin, std::int64_t end) {
          BeamSearch<T> search(p, scratch + static_cast<std::size_t>(s) * p.slot_bytes());
          for (std::int64_t b = begin; b < end; ++b) {
            search.run(operand_in<T>(operands, 0) + b * p.classes,
                       std::clamp<std::int64_t>(lengths[b], 0, p.steps));
            search.write(operand_out<T>(operands, 2) + b * p.paths,
                         operand_out<std::int32_t>(operands, 3) + b * p.paths,
                         operand_out<std::int32_t>(operands, 4) + b * p.paths * p.steps);
          }
        });
  };
}

}  // namespace

KernelPlan make_ctc_beam_search(const KernelRequest& request) {
  const Shape& shape = request.input(0).shape;
  if (shape.size() != 3) return KernelPlan::reject("wanted probabilities of rank 3");
  BeamProblem p;
  p.steps = shape[0];
  p.batch = shape[1];
  p.classes = shape[2];
  p.blank = request.attributes().integer("blank");
  p.width = request.attributes().integer("beam_width");
  p.paths = request.attributes().integer("top_paths");
  p.length_dtype = request.input(1).dtype;
  p.threads = request.num_threads;
  if (p.max_nodes() > INT32_MAX) return KernelPlan::reject("more nodes than an int32 counts");
  KernelPlan plan;
  plan.scratch_bytes = p.slot_bytes() * static_cast<std::size_t>(p.threads);
  if (request.input(0).dtype == DType::Float32) {
    plan.run = run_beam_search<float>(p);
  } else if (request.input(0).dtype == DType::Float64) {
    plan.run = run_beam_search<double>(p);
  } else {
    return KernelPlan::reject(unsupported_dtype(request.input(0).dtype));
  }
  return plan;
}

}  // namespace pando::cpu
