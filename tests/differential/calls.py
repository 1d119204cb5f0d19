"""The parameters of each function that ember and PyTorch share: one line for each.

`name:kind` is a parameter with a function of parameters.py that makes it, `name?:kind` one that
may be left out, and what follows `*` is given by keyword. A method takes its own tensor in place of
the first parameter.
"""

UNARY = """abs absolute neg negative positive sign square reciprocal angle ceil floor trunc fix
frac sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin arcsin acos arccos atan
arctan sinh cosh tanh asinh arcsinh acosh arccosh atanh arctanh deg2rad rad2deg erf erfc lgamma sigmoid
relu isnan isinf isfinite signbit logical_not bitwise_not conj sgn""".split()
BINARY = """mul multiply true_divide floor_divide remainder fmod atan2 arctan2 hypot maximum
minimum fmax fmin copysign nextafter eq ne not_equal lt less le less_equal gt greater ge
greater_equal logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor
bitwise_left_shift bitwise_right_shift gcd""".split()
WHOLE_NUMBERS = ["bitwise_not", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift",
                 "bitwise_right_shift", "gcd"]
FLOATING = """reciprocal frac sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin
arcsin acos arccos atan arctan sinh cosh tanh asinh arcsinh acosh arccosh atanh arctanh deg2rad
rad2deg erf erfc lgamma sigmoid true_divide atan2 arctan2 hypot copysign nextafter""".split()
# PyTorch has no form with a number of these.
OF_TENSORS = """atan2 arctan2 hypot maximum minimum fmax fmin nextafter logical_and logical_or
logical_xor gcd""".split()
# PyTorch ends the process where the smallest integer is divided by -1.
DIVISIONS = ["div", "divide", "floor_divide", "remainder", "fmod", "__floordiv", "__mod"]
# Their results are not compared: only dtypes, shapes and errors.
RANDOM = """rand randn rand_like randn_like randint randint_like randperm normal bernoulli multinomial uniform_
normal_ exponential_ bernoulli_ random_ empty empty_like empty_strided new_empty seed initial_seed
get_rng_state manual_seed""".split()

CALLS = """
add(input:other other:other * alpha?:number out?:out)
sub(input:other other:other * alpha?:number out?:out)
subtract(input:other other:other * alpha?:number out?:out)
div(input:other other:other * rounding_mode?:rounding out?:out)
divide(input:other other:other * rounding_mode?:rounding out?:out)
pow(input:other exponent:other * out?:out)
addcmul(input:tensor tensor1:like tensor2:like * value?:number out?:out)
addcdiv(input:floats tensor1:like tensor2:like * value?:number out?:out)
lerp(input:floats end:same weight:other * out?:out)
clamp(input:tensor min?:other max?:other * out?:out)
clip(input:tensor min?:other max?:other * out?:out)
clamp_min(input:tensor min:other * out?:out)
clamp_max(input:tensor max:other * out?:out)
clamp_(input:tensor min?:other max?:other)
clip_(input:tensor min?:other max?:other)
clamp_min_(input:tensor min:other)
clamp_max_(input:tensor max:other)
clone(input:tensor)
detach(input:tensor)
get_device(input:tensor)
is_signed(input:tensor)
real(input:tensor)
imag(input:tensor)
fill_(input:tensor value:number)
zero_(input:tensor)
index_put_(input:tensor indices:index_tensors values:indexed_elements accumulate?:flag)
round(input:tensor * decimals?:whole out?:out)
round_(input:tensor)
where(condition:condition input:other other:other * out?:out)
where(condition:tensor)

transpose(input:tensor dim0:dim dim1:dim)
adjoint(input:tensor)
swapaxes(input:tensor axis0:dim axis1:dim)
swapdims(input:tensor dim0:dim dim1:dim)
t(input:flat)
select(input:tensor dim:dim index:whole)
narrow(input:tensor dim:dim start:start length:length)
flatten(input:tensor start_dim?:dim end_dim?:dim)
squeeze(input:tensor dim?:dims)
unsqueeze(input:tensor dim:new_dim)
permute(input:tensor dims:order)
reshape(input:tensor shape:new_shape)
as_strided(input:tensor size:strided stride:strides storage_offset?:size)
movedim(input:tensor source:dims destination:dims)
moveaxis(input:tensor source:dims destination:dims)
ravel(input:tensor)
broadcast_to(input:tensor size:wider_shape)
chunk(input:tensor chunks:size dim?:dim)
split(tensor:tensor split_size_or_sections:pieces dim?:dim)
unbind(input:tensor dim?:dim)
tensor_split(input:tensor sections:size dim?:dim)
tensor_split(input:tensor indices:some_indices dim?:dim)
tensor_split(input:tensor tensor_indices_or_sections:split_tensor dim?:dim)
hsplit(input:tensor sections:size)
hsplit(input:tensor indices:some_indices)
vsplit(input:tensor sections:size)
vsplit(input:tensor indices:some_indices)
dsplit(input:tensor sections:size)
dsplit(input:tensor indices:some_indices)
diagonal(input:tensor offset?:whole dim1?:dim dim2?:dim)
view_as_real(input:complexes)
view_as_complex(input:pairs)

index_select(input:tensor dim:dim index:row_index * out?:out)
gather(input:tensor dim:dim index:element_index * out?:out)
take_along_dim(input:tensor indices:element_index dim?:dim * out?:out)
take(input:tensor index:flat_index * out?:out)
nonzero(input:tensor * as_tuple?:flag out?:out)
argwhere(input:tensor)
masked_select(input:tensor mask:mask * out?:out)
scatter(input:tensor dim:dim index:element_index src:elements * out?:out)
scatter(input:tensor dim:dim index:element_index value:number)
scatter(input:tensor dim:dim index:element_index src:elements_or_number)
scatter(input:tensor dim:dim index:element_index src:elements * reduce:reduction out?:out)
scatter(input:tensor dim:dim index:element_index value:number * reduce:reduction out?:out)
scatter_add(input:tensor dim:dim index:element_index src:elements * out?:out)
index_add(input:tensor dim:dim index:row_index source:rows * alpha?:number out?:out)
index_copy(input:tensor dim:dim index:row_index source:rows * out?:out)
index_fill(input:tensor dim:dim index:row_index value:number)
masked_fill(input:tensor mask:mask value:number)
flip(input:tensor dims:dims)
fliplr(input:tensor)
flipud(input:tensor)
roll(input:tensor shifts:whole dims?:dim)
roll(input:tensor shifts:repeats dims:dims)
tril(input:tensor diagonal?:whole * out?:plain_out)
triu(input:tensor diagonal?:whole * out?:plain_out)
diag(input:flat diagonal?:whole * out?:out)
cumsum(input:tensor dim:dim * dtype?:accumulating out?:out)
cumprod(input:tensor dim:dim * dtype?:accumulating out?:out)
logsumexp(input:floats dim:dim keepdim?:flag * out?:out)
equal(input:tensor other:same)
isclose(input:tensor other:same rtol?:real atol?:real equal_nan?:flag)
allclose(input:tensor other:same rtol?:real atol?:real equal_nan?:flag)
softmax(input:floats dim:dim dtype?:accumulating * out?:out)
log_softmax(input:floats dim:dim dtype?:accumulating * out?:out)

sum(input:tensor dim?:dims keepdim?:flag * dtype?:accumulating out?:out)
prod(input:tensor dim?:dim keepdim?:flag * dtype?:accumulating out?:out)
mean(input:floats dim?:dims keepdim?:flag * dtype?:accumulating out?:out)
var(input:floats dim?:dims * correction?:real keepdim?:flag out?:out)
var(input:floats unbiased:flag)
var(input:floats dim:dims unbiased:flag keepdim?:flag)
var_mean(input:floats dim?:dims * correction?:real keepdim?:flag)
var_mean(input:floats unbiased:flag)
var_mean(input:floats dim:dims unbiased:flag keepdim?:flag)
std_mean(input:floats dim?:dims * correction?:real keepdim?:flag)
std(input:floats dim?:dims * correction?:real keepdim?:flag out?:out)
std(input:floats unbiased:flag)
std(input:floats dim:dims unbiased:flag keepdim?:flag)
amax(input:tensor dim?:dims keepdim?:flag * out?:out)
amin(input:tensor dim?:dims keepdim?:flag * out?:out)
any(input:tensor dim?:dims keepdim?:flag * out?:out)
all(input:tensor dim?:dims keepdim?:flag * out?:out)
argmax(input:tensor dim?:dim keepdim?:flag * out?:out)
argmin(input:tensor dim?:dim keepdim?:flag * out?:out)
count_nonzero(input:tensor dim?:dims)
aminmax(input:tensor * dim?:dim keepdim?:flag out?:outs)
max(input:tensor)
max(input:tensor dim:dim keepdim?:flag * out?:outs)
max(input:tensor other:like)
min(input:tensor)
min(input:tensor dim:dim keepdim?:flag * out?:outs)
min(input:tensor other:like)
norm(input:floats p?:power dim?:dims keepdim?:flag dtype?:accumulating * out?:out)
topk(input:tensor k:size dim?:dim largest?:flag sorted?:flag * out?:outs)
unique(input:tensor)
bincount(input:counted weights?:like minlength?:size)
repeat_interleave(input:tensor repeats:size)
diff(input:tensor * dim?:dim prepend?:like append?:tensor)
tile(input:tensor dims:repeats)
outer(input:flat vec2:like * out?:out)
sort(input:tensor dim?:dim descending?:flag * stable?:flag out?:outs)
argsort(input:tensor dim?:dim descending?:flag * stable?:flag)

mm(input:left2 mat2:right2 * out?:out)
bmm(input:left3 mat2:right3 * out?:out)
mv(input:left2 vec:row_vector * out?:out)
dot(input:row_vector tensor:row_vector * out?:out)
matmul(input:any_left other:any_right * out?:out)
addmm(input:added2 mat1:left2 mat2:right2 * beta?:number alpha?:number out?:out)
baddbmm(input:added3 batch1:left3 batch2:right3 * beta?:number alpha?:number out?:out)
addr(input:added2 vec1:column_vector vec2:other_vector * beta?:number alpha?:number out?:out)
cat(tensors:joined dim?:dim * out?:out)
hstack(tensors:joined * out?:out)
dstack(tensors:joined * out?:out)
column_stack(tensors:joined * out?:out)
row_stack(tensors:joined * out?:out)
vstack(tensors:joined * out?:out)
concatenate(tensors:joined dim?:dim * out?:out)
concat(tensors:joined dim?:dim * out?:out)
stack(tensors:alike dim?:new_dim * out?:out)

tensor(data:data * dtype?:dtype device?:device)
as_tensor(data:data dtype?:dtype device?:device)
scalar_tensor(s:number * dtype?:dtype device?:device)
from_numpy(ndarray:array)
from_dlpack(ext_tensor:tensor)
from_dlpack(ext_tensor:forward_array)
empty(size:shape * dtype?:dtype device?:device out?:out)
zeros(size:shape * dtype?:dtype device?:device out?:out)
ones(size:shape * dtype?:dtype device?:device out?:out)
full(size:shape fill_value:number * dtype?:dtype device?:device out?:out)
empty_like(input:tensor * dtype?:dtype device?:device)
zeros_like(input:tensor * dtype?:dtype device?:device)
ones_like(input:tensor * dtype?:dtype device?:device)
full_like(input:tensor fill_value:number * dtype?:dtype device?:device)
empty_strided(size:strided stride:dense_strides * dtype?:dtype device?:device)
linspace(start:real end:real steps:size * dtype?:floating out?:out)
eye(n:size m?:size * dtype?:dtype out?:out)
arange(end:real * dtype?:dtype device?:device out?:out)
arange(start:whole end:size step?:whole * dtype?:dtype out?:out)
arange(start:real end:whole step?:real * dtype?:floating out?:out)
promote_types(type1:dtype type2:dtype)
can_cast(from_:dtype to:dtype)
result_type(tensor:tensor other:other)
result_type(scalar:number tensor:tensor)
result_type(scalar1:number scalar2:number)
get_default_dtype()
is_tensor(obj:anything)
is_floating_point(input:tensor)
is_complex(input:tensor)
numel(input:tensor)
Size(sizes:shape)
device(type:device)
device(type:device index:whole)

rand(size:shape * generator?:generator dtype?:dtype device?:device out?:out)
randn(size:shape * generator?:generator dtype?:dtype device?:device out?:out)
rand_like(input:floats * dtype?:dtype device?:device)
randn_like(input:floats * dtype?:dtype device?:device)
randint_like(input:tensor high:size * dtype?:dtype device?:device)
randint_like(input:tensor low:whole high:size * dtype?:dtype device?:device)
randint(high:size size:shape * generator?:generator dtype?:dtype out?:out)
randint(low:whole high:size size:shape * generator?:generator dtype?:dtype out?:out)
randperm(n:size * generator?:generator dtype?:dtype out?:out)
normal(mean:real std:real size:shape * generator?:generator dtype?:dtype)
normal(mean:floats std:like * generator?:generator out?:out)
normal(mean:real std:weights * generator?:generator out?:out)
normal(mean:floats std?:real * generator?:generator out?:out)
bernoulli(input:probabilities * generator?:generator out?:out)
multinomial(input:weights num_samples:size replacement?:flag * generator?:generator out?:out)
manual_seed(seed:whole)
seed()
initial_seed()
get_rng_state()
"""

# Methods that are no functions, or take other parameters than these.
METHODS = """
unfold(self:tensor dimension:dim size:size step:size)
view(self:tensor size:new_shape)
view(self:tensor dtype:dtype)
view_as(self:tensor other:same)
reshape_as(self:tensor other:same)
expand(self:tensor size:wider_shape)
expand_as(self:tensor other:like)
split(self:tensor split_size:pieces dim?:dim)
where(self:tensor condition:mask other:other)
detach(self:tensor)
t_(self:flat)
transpose_(self:tensor dim0:dim dim1:dim)
swapdims_(self:tensor dim0:dim dim1:dim)
swapaxes_(self:tensor axis0:dim axis1:dim)
squeeze_(self:tensor dim?:dims)
unsqueeze_(self:tensor dim:dim)
tril_(self:tensor diagonal?:whole)
triu_(self:tensor diagonal?:whole)
type_as(self:tensor other:like)
set_(self:tensor source:same)
to(self:tensor target:to_target non_blocking?:flag copy?:flag)
to(self:tensor device:device dtype:dtype non_blocking?:flag copy?:flag)
to(self:tensor * dtype?:dtype copy?:flag)
cpu(self:tensor)
clone(self:tensor)
contiguous(self:tensor)
copy_(self:tensor src:like non_blocking?:flag)
type(self:tensor dtype?:dtype_name)
fill_(self:tensor value:number)
zero_(self:tensor)
item(self:single)
tolist(self:tensor)
size(self:tensor dim?:dim)
stride(self:tensor dim?:dim)
numel(self:tensor)
nelement(self:tensor)
dim(self:tensor)
ndimension(self:tensor)
element_size(self:tensor)
get_device(self:tensor)
storage_offset(self:tensor)
is_contiguous(self:tensor)
is_floating_point(self:tensor)
is_complex(self:tensor)
is_signed(self:tensor)
repeat(self:tensor sizes:repeats)
put_(self:tensor index:flat_index source:flat_elements accumulate?:flag)
index_put_(self:tensor indices:index_tensors values:indexed_elements accumulate?:flag)
new_tensor(self:tensor data:data * dtype?:dtype device?:device)
new_empty(self:tensor size:shape * dtype?:dtype device?:device)
new_zeros(self:tensor size:shape * dtype?:dtype device?:device)
new_ones(self:tensor size:shape * dtype?:dtype device?:device)
new_full(self:tensor size:shape fill_value:number * dtype?:dtype device?:device)
numpy(self:tensor * force?:flag)
uniform_(self:floats from_?:real to?:real * generator?:generator)
normal_(self:floats mean?:real std?:real * generator?:generator)
exponential_(self:floats lambd?:real * generator?:generator)
bernoulli_(self:tensor p?:real * generator?:generator)
random_(self:tensor * generator?:generator)
random_(self:tensor to:size)
random_(self:tensor from_:whole to:size)
__dlpack_device__(self:tensor)
__array__(self:tensor dtype?:dtype)
__deepcopy__(self:tensor memo:empty_memo)
__copy__(self:tensor)
float(self:tensor)
double(self:tensor)
half(self:tensor)
bfloat16(self:tensor)
bool(self:tensor)
byte(self:tensor)
char(self:tensor)
short(self:tensor)
int(self:tensor)
long(self:tensor)
chalf(self:tensor)
cfloat(self:tensor)
cdouble(self:tensor)
"""

PROPERTIES = """dtype device shape ndim is_cuda is_cpu itemsize nbytes T mT H mH real imag data
requires_grad is_leaf""".split()

OPERATORS = {
    "__add__": "+", "__sub__": "-", "__mul__": "*", "__truediv__": "/", "__floordiv__": "//",
    "__mod__": "%", "__pow__": "**", "__and__": "&", "__or__": "|", "__xor__": "^",
    "__lshift__": "<<", "__rshift__": ">>", "__eq__": "==", "__ne__": "!=", "__lt__": "<",
    "__le__": "<=", "__gt__": ">", "__ge__": ">=", "__matmul__": "@"}
ON_ONE = {
    "__neg__": "-{}", "__pos__": "+{}", "__abs__": "abs({})", "__invert__": "~{}",
    "__len__": "len({})", "__bool__": "bool({})", "__float__": "float({})", "__int__": "int({})",
    "__complex__": "complex({})", "__index__": "operator.index({})", "__iter__": "list({})",
    "__repr__": "repr({})"}
WITH_ONE_ELEMENT = ["__bool__", "__float__", "__int__", "__complex__", "__index__"]

LEFT_OUT = {
    "Tensor.cuda": "PyTorch has no CUDA device here; tests/python has these",
    "Tensor.pin_memory": "as Tensor.cuda", "Tensor.is_pinned": "as Tensor.cuda",
    "Tensor.record_stream": "as Tensor.cuda", "Tensor.__cuda_array_interface__": "as Tensor.cuda",
    "Tensor.data_ptr": "an address",
    "Tensor.share_memory_": "tests/python has it: views keep what it leaves",
    "Tensor.is_shared": "as Tensor.share_memory_",
    "Stream": "as Tensor.cuda", "Event": "as Tensor.cuda",
    "Tensor.__dlpack__": "a capsule: from_dlpack calls it",
    "Tensor.__delitem__": "both refuse it: tests/python has it",
    "Tensor.__setstate__": "the two store different things: tests/python has copies by pickle",
    "Tensor.__array_wrap__": "called by NumPy, which the operators with arrays do",
    "set_rng_state": "a state of PyTorch's generator means nothing to ember's",
    "Tensor": "a class: its methods are here", "Generator": "a class: tests/python has its methods",
    "Stream": "as Generator", "Event": "as Generator",
    "Tensor.is_shared": "moves memory between processes: tests/python has it",
    "Tensor.share_memory_": "as Tensor.is_shared",
    "set_default_device": "it would hold for all calls that follow: tests/python has it",
    "get_default_device": "as set_default_device",
    "set_num_threads": "as set_default_device",
    "get_num_threads": "as set_default_device",
    "set_float32_matmul_precision": "as set_default_device",
    "get_float32_matmul_precision": "as set_default_device",
    "dtype": "a class that is not called",
    "finfo": "a class: tests/python has it", "iinfo": "as finfo",
    "unflatten": "PyTorch wraps its errors: tests/python has it", "Tensor.unflatten": "as unflatten",
    "unique_consecutive": "PyTorch mixes up its flags by position: tests/python has it",
    "Tensor.unique_consecutive": "as unique_consecutive",
    "median": "PyTorch reads beyond expanded tensors: tests/python has it", "Tensor.median": "as median",
    "trace": "PyTorch's CPU has no 16-bit kernels: tests/python has it", "Tensor.trace": "as trace",
    "meshgrid": "any number of tensors: tests/python has it",
    **{name: "as meshgrid" for name in ("atleast_1d", "atleast_2d", "atleast_3d", "broadcast_tensors",
                                        "broadcast_shapes")},
    "no_grad": "nothing is computed: tests/python has it", "inference_mode": "as no_grad",
    "is_grad_enabled": "True in PyTorch", "Tensor.requires_grad_": "as no_grad",
    "Tensor.detach_": "as no_grad", "detach_": "as no_grad", "enable_grad": "as no_grad", "set_grad_enabled": "as no_grad",
    "set_printoptions": "test_print.py holds against what torch writes",
    **{name + "Tensor": "a class for isinstance: tests/python has it"
       for name in "BFloat16 Bool Byte Char Double Float Half Int Long Short".split()},
    "OutOfMemoryError": "an exception", "AcceleratorError": "as OutOfMemoryError",
    "stft": "its arguments have to fit each other: test_fft.py has it, and ember.fft",
    "istft": "as stft", "Tensor.stft": "as stft", "Tensor.istft": "as stft",
}


def parse(text):
    """name -> its lists of parameters: (name, kind, may be left out, by keyword only)."""
    found = {}
    for line in text.split("\n"):
        if not line:
            continue
        name, _, rest = line.partition("(")
        parameters, keyword = [], False
        for word in rest.rstrip(")").split():
            if word == "*":
                keyword = True
                continue
            parameter, kind = word.split(":")
            parameters.append((parameter.rstrip("?"), kind, parameter.endswith("?"), keyword))
        found.setdefault(name, []).append(parameters)
    return found


def signatures():
    """The functions, and the methods that have lines of their own."""
    lines = []
    for name in UNARY:
        lines.append(f"{name}(input:{first_kind(name)} * out?:out)")
        lines.append(f"{name}_(input:{first_kind(name)})")
    for name in BINARY:
        beside = "beside" if name in OF_TENSORS else "other"
        lines.append(f"{name}(input:{first_kind(name)} other:{beside} * out?:out)")
    lines.append(f"gcd_(input:{first_kind('gcd')} other:beside)")
    return parse("\n".join(lines) + CALLS), parse(METHODS)


def first_kind(name):
    if name in WHOLE_NUMBERS:
        return "ints"
    if name in FLOATING:
        return "more_floats"
    return "tensor" if name in UNARY + OF_TENSORS else "other"
