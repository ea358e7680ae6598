#include "train/fused_ops.h"

#include "train/cpu_ops.h"

namespace tombolo::train {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// Runs f with a value of the tensor's element type.
template <class F>
void for_type(const at::Tensor& tensor, F f) {
  if (tensor.scalar_type() == at::kDouble) {
    f(double{});
  } else {
    TORCH_CHECK(tensor.scalar_type() == at::kFloat, "fused operations take float or double, not ",
                tensor.scalar_type());
    f(float{});
  }
}

void require(const at::Tensor& tensor, const at::Tensor& like) {
  TORCH_CHECK(tensor.is_contiguous() && tensor.device().is_cpu() &&
                  tensor.scalar_type() == like.scalar_type(),
              "fused operations take contiguous tensors of one type on the CPU");
}

template <class T>
T* data(const at::Tensor& tensor) {
  return tensor.numel() > 0 ? tensor.data_ptr<T>() : nullptr;
}

struct RmsNorm : Function<RmsNorm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            double epsilon) {
    require(x, x);
    require(weight, x);
    at::Tensor y = at::empty_like(x);
    at::Tensor inverse_rms = at::empty({x.size(0)}, x.options());
    for_type(x, [&](auto t) {
      using T = decltype(t);
      rms_norm_forward<T>(x.size(0), x.size(1), data<T>(x), data<T>(weight), epsilon, data<T>(y),
                          data<T>(inverse_rms));
    });
    context->save_for_backward({x, weight, inverse_rms});
    return y;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::Tensor dy = gradients[0].contiguous();
    at::Tensor dx = at::empty_like(x), dweight = at::empty_like(saved[1]);
    for_type(x, [&](auto t) {
      using T = decltype(t);
      rms_norm_backward<T>(x.size(0), x.size(1), data<T>(dy), data<T>(x), data<T>(saved[1]),
                           data<T>(saved[2]), data<T>(dx), data<T>(dweight));
    });
    return {dx, dweight, at::Tensor()};
  }
};

struct Swiglu : Function<Swiglu> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate,
                            const at::Tensor& up) {
    require(gate, gate);
    require(up, gate);
    at::Tensor y = at::empty_like(gate);
    for_type(gate, [&](auto t) {
      using T = decltype(t);
      swiglu_forward<T>(gate.numel(), data<T>(gate), data<T>(up), data<T>(y));
    });
    context->save_for_backward({gate, up});
    return y;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor dy = gradients[0].contiguous();
    at::Tensor dgate = at::empty_like(saved[0]), dup = at::empty_like(saved[1]);
    for_type(dy, [&](auto t) {
      using T = decltype(t);
      swiglu_backward<T>(dy.numel(), data<T>(dy), data<T>(saved[0]), data<T>(saved[1]),
                         data<T>(dgate), data<T>(dup));
    });
    return {dgate, dup};
  }
};

struct CausalAttention : Function<CausalAttention> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& query,
                            const at::Tensor& key, const at::Tensor& value,
                            const at::Tensor& cosine, const at::Tensor& sine,
                            const AttentionShape& shape) {
    for (const at::Tensor* tensor : {&query, &key, &value}) require(*tensor, query);
    at::Tensor out = at::empty_like(query);
    at::Tensor log_sum = at::empty({shape.samples, shape.heads, shape.sequence}, query.options());
    for_type(query, [&](auto t) {
      using T = decltype(t);
      attention_forward<T>(shape, data<T>(query), data<T>(key), data<T>(value), data<T>(cosine),
                           data<T>(sine), data<T>(out), data<T>(log_sum));
    });
    context->save_for_backward({query, key, value, cosine, sine, out, log_sum});
    context->saved_data["shape"] = c10::List<int64_t>(
        {shape.samples, shape.sequence, shape.heads, shape.kv_heads, shape.head_size});
    return out;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto sizes = context->saved_data["shape"].toIntVector();
    const AttentionShape shape{sizes[0], sizes[1], sizes[2], sizes[3], sizes[4]};
    const at::Tensor dout = gradients[0].contiguous();
    at::Tensor dquery = at::empty_like(saved[0]), dkey = at::empty_like(saved[1]),
               dvalue = at::empty_like(saved[2]);
    for_type(dout, [&](auto t) {
      using T = decltype(t);
      attention_backward<T>(shape, data<T>(dout), data<T>(saved[0]), data<T>(saved[1]),
                            data<T>(saved[2]), data<T>(saved[3]), data<T>(saved[4]),
                            data<T>(saved[5]), data<T>(saved[6]), data<T>(dquery), data<T>(dkey),
                            data<T>(dvalue));
    });
    return {dquery, dkey, dvalue, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  return RmsNorm::apply(x, weight, epsilon);
}

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) { return Swiglu::apply(gate, up); }

at::Tensor causal_attention(const AttentionShape& shape, const at::Tensor& query,
                            const at::Tensor& key, const at::Tensor& value,
                            const at::Tensor& cosine, const at::Tensor& sine) {
  return CausalAttention::apply(query, key, value, cosine, sine, shape);
}

}  // namespace tombolo::train
