// AT_DISPATCH_*: the body once for each scalar type, chosen at run time. `scalar_t` names the type.
// (ATen/Dispatch.h's complex and quantised families are left to torch's own headers.)
#pragma once
#include <kevin/tensor.h>

#define AT_DISPATCH_CASE_TYPE(alias, type, ...)                                                \
  case type: {                                                                                 \
    using alias [[maybe_unused]] = ::kevin_torch::impl::ScalarTypeToCPPTypeT<type>;            \
    return __VA_ARGS__();                                                                      \
  }
#define AT_PRIVATE_CASE_TYPE_USING_HINT(type, alias, ...) AT_DISPATCH_CASE_TYPE(alias, type, __VA_ARGS__)
#define AT_DISPATCH_CASE(type, ...) AT_DISPATCH_CASE_TYPE(scalar_t, type, __VA_ARGS__)
#define AT_DISPATCH_SWITCH(TYPE, NAME, ...)                                                    \
  [&] {                                                                                        \
    const ::kevin_torch::ScalarType kevin_type = (TYPE);                                       \
    constexpr const char* at_dispatch_name = NAME;                                             \
    switch (kevin_type) {                                                                      \
      __VA_ARGS__                                                                              \
      default:                                                                                 \
        ::kevin_torch::check_failed(::kevin_torch::Fault::NotImplementedError,                 \
            "", '"', at_dispatch_name, "\" not implemented for '", kevin_type, "'");           \
    }                                                                                          \
  }()

#define AT_DISPATCH_CASE_FLOATING_TYPES(...) \
  AT_DISPATCH_CASE(::kevin_torch::ScalarType::Double, __VA_ARGS__) \
  AT_DISPATCH_CASE(::kevin_torch::ScalarType::Float, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__))
#define AT_DISPATCH_CASE_INTEGRAL_TYPES(...) \
  AT_DISPATCH_CASE(::kevin_torch::ScalarType::Byte, __VA_ARGS__) \
  AT_DISPATCH_CASE(::kevin_torch::ScalarType::Char, __VA_ARGS__) \
  AT_DISPATCH_CASE(::kevin_torch::ScalarType::Int, __VA_ARGS__) \
  AT_DISPATCH_CASE(::kevin_torch::ScalarType::Long, __VA_ARGS__) \
  AT_DISPATCH_CASE(::kevin_torch::ScalarType::Short, __VA_ARGS__)
#define AT_DISPATCH_INTEGRAL_TYPES(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_INTEGRAL_TYPES(__VA_ARGS__))
#define AT_DISPATCH_CASE_ALL_TYPES(...) \
  AT_DISPATCH_CASE(::kevin_torch::ScalarType::Byte, __VA_ARGS__) \
  AT_DISPATCH_CASE(::kevin_torch::ScalarType::Char, __VA_ARGS__) \
  AT_DISPATCH_CASE(::kevin_torch::ScalarType::Int, __VA_ARGS__) \
  AT_DISPATCH_CASE(::kevin_torch::ScalarType::Long, __VA_ARGS__) \
  AT_DISPATCH_CASE(::kevin_torch::ScalarType::Short, __VA_ARGS__) \
  AT_DISPATCH_CASE(::kevin_torch::ScalarType::Double, __VA_ARGS__) \
  AT_DISPATCH_CASE(::kevin_torch::ScalarType::Float, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__))
#define AT_DISPATCH_CASE_REDUCED_FLOATING_TYPES(...) \
  AT_DISPATCH_CASE(::kevin_torch::ScalarType::Half, __VA_ARGS__) \
  AT_DISPATCH_CASE(::kevin_torch::ScalarType::BFloat16, __VA_ARGS__)
#define AT_DISPATCH_REDUCED_FLOATING_TYPES(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_REDUCED_FLOATING_TYPES(__VA_ARGS__))
#define AT_DISPATCH_CASE_INDEX_TYPES(...) \
  AT_DISPATCH_CASE_TYPE(index_t, ::kevin_torch::ScalarType::Int, __VA_ARGS__) \
  AT_DISPATCH_CASE_TYPE(index_t, ::kevin_torch::ScalarType::Long, __VA_ARGS__)
#define AT_DISPATCH_INDEX_TYPES(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_INDEX_TYPES(__VA_ARGS__))
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND(S1, ...) \
  AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__) \
  AT_DISPATCH_CASE(S1, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES_AND(S1, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_TYPES_AND(S1, __VA_ARGS__))
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND2(S1, S2, ...) \
  AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__) \
  AT_DISPATCH_CASE(S1, __VA_ARGS__) \
  AT_DISPATCH_CASE(S2, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES_AND2(S1, S2, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_TYPES_AND2(S1, S2, __VA_ARGS__))
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND3(S1, S2, S3, ...) \
  AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__) \
  AT_DISPATCH_CASE(S1, __VA_ARGS__) \
  AT_DISPATCH_CASE(S2, __VA_ARGS__) \
  AT_DISPATCH_CASE(S3, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES_AND3(S1, S2, S3, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_TYPES_AND3(S1, S2, S3, __VA_ARGS__))
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND4(S1, S2, S3, S4, ...) \
  AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__) \
  AT_DISPATCH_CASE(S1, __VA_ARGS__) \
  AT_DISPATCH_CASE(S2, __VA_ARGS__) \
  AT_DISPATCH_CASE(S3, __VA_ARGS__) \
  AT_DISPATCH_CASE(S4, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES_AND4(S1, S2, S3, S4, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_TYPES_AND4(S1, S2, S3, S4, __VA_ARGS__))
#define AT_DISPATCH_CASE_ALL_TYPES_AND(S1, ...) \
  AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__) \
  AT_DISPATCH_CASE(S1, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND(S1, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES_AND(S1, __VA_ARGS__))
#define AT_DISPATCH_CASE_ALL_TYPES_AND2(S1, S2, ...) \
  AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__) \
  AT_DISPATCH_CASE(S1, __VA_ARGS__) \
  AT_DISPATCH_CASE(S2, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND2(S1, S2, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES_AND2(S1, S2, __VA_ARGS__))
#define AT_DISPATCH_CASE_ALL_TYPES_AND3(S1, S2, S3, ...) \
  AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__) \
  AT_DISPATCH_CASE(S1, __VA_ARGS__) \
  AT_DISPATCH_CASE(S2, __VA_ARGS__) \
  AT_DISPATCH_CASE(S3, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND3(S1, S2, S3, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES_AND3(S1, S2, S3, __VA_ARGS__))
#define AT_DISPATCH_CASE_INTEGRAL_TYPES_AND(S1, ...) \
  AT_DISPATCH_CASE_INTEGRAL_TYPES(__VA_ARGS__) \
  AT_DISPATCH_CASE(S1, __VA_ARGS__)
#define AT_DISPATCH_INTEGRAL_TYPES_AND(S1, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_INTEGRAL_TYPES_AND(S1, __VA_ARGS__))
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND_HALF(...) \
  AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__) \
  AT_DISPATCH_CASE(::kevin_torch::ScalarType::Half, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES_AND_HALF(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_TYPES_AND_HALF(__VA_ARGS__))
