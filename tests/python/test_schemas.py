"""ember.ops: operations by the names of their overloads, and their schemas."""

import pytest

import ember
from ember import ops

aten = ops.aten


def text(name, overload="default"):
    return str(getattr(getattr(aten, name), overload)._schema)


def test_texts():
    assert text("add", "Tensor") == (
        "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor")
    assert text("add_", "Tensor") == (
        "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)")
    assert text("mul", "out") == (
        "aten::mul.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)")
    assert text("cat") == "aten::cat(Tensor[] tensors, int dim=0) -> Tensor"
    assert text("split", "Tensor") == (
        "aten::split.Tensor(Tensor(a -> *) self, int split_size, int dim=0) -> Tensor(a)[]")
    assert text("nonzero") == "aten::nonzero(Tensor self) -> Tensor"
    assert text("addr") == (
        "aten::addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor")
    assert text("topk", "values") == (
        "aten::topk.values(Tensor self, int k, int dim=-1, bool largest=True, bool sorted=True, *, "
        "Tensor(a!) values, Tensor(b!) indices) -> (Tensor(a!) values, Tensor(b!) indices)")
    assert text("transpose", "int") == (
        "aten::transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)")
    assert text("uniform_") == ("aten::uniform_(Tensor(a!) self, float from=0., float to=1., *, "
                                "Generator? generator=None) -> Tensor(a!)")


@pytest.mark.parametrize("name,overloads", [
    ("exp", ["default", "out"]),
    ("sub", ["Tensor", "out", "Scalar", "Scalar_out"]),
    ("eq", ["Tensor", "Tensor_out", "Scalar", "Scalar_out"]),
    ("pow", ["Tensor_Tensor", "Tensor_Tensor_out", "Tensor_Scalar", "Tensor_Scalar_out", "Scalar",
             "Scalar_out"]),
    ("pow_", ["Tensor", "Scalar"]),
    ("bitwise_and_", ["Tensor", "Scalar"]),
    ("div", ["Tensor", "out", "Scalar", "Scalar_out", "Tensor_mode", "out_mode", "Scalar_mode",
             "Scalar_mode_out"]),
    ("max", ["default", "unary_out", "dim", "dim_max", "other", "out"]),
    ("sum", ["default", "out", "dim_IntList", "IntList_out"]),
    ("squeeze", ["default", "dim", "dims"]),
    ("scatter_", ["src", "reduce", "value", "value_reduce"]),
    ("clamp", ["default", "out", "Tensor", "Tensor_out"]),
    ("view", ["default", "dtype"]),
])
def test_overloads(name, overloads):
    assert getattr(aten, name).overloads() == overloads
    assert dir(getattr(aten, name)) == sorted(overloads)


def test_parts():
    schema = aten.add_.Tensor._schema
    assert (schema.name, schema.overload_name) == ("aten::add_", "Tensor")
    assert schema.is_mutable and not aten.add.Tensor._schema.is_mutable
    assert [a.name for a in schema.arguments] == ["self", "other", "alpha"]
    assert [a.type for a in schema.arguments] == ["Tensor", "Tensor", "Scalar"]
    written, read, factor = schema.arguments
    assert written.alias_info.is_write and read.alias_info is None and factor.alias_info is None
    assert written.alias_info.before_set == {"alias::a"} == written.alias_info.after_set
    assert factor.kwarg_only and not read.kwarg_only
    assert factor.has_default_value() and factor.default_value == 1
    assert not read.has_default_value() and read.default_value is None
    assert not any(a.is_out for a in schema.arguments)
    result, = schema.returns
    assert result.type == "Tensor" and result.name == "" and result.alias_info.is_write
    assert repr(factor) == "Scalar alpha=1"
    assert aten.add.Tensor._schema == aten.add.Tensor._schema != aten.add.Scalar._schema
    assert len({aten.add.Tensor._schema, aten.add.Tensor._schema}) == 1

    out = aten.sort.values._schema
    assert [a.name for a in out.arguments if a.is_out] == ["values", "indices"]
    assert [r.name for r in out.returns] == ["values", "indices"] and out.is_mutable
    # A view shares memory, and writes nothing.
    view = aten.select.int._schema
    assert view.arguments[0].alias_info.is_write is False and not view.is_mutable


def test_names():
    assert str(aten.add.Tensor) == "aten.add.Tensor"
    assert repr(aten.add.Tensor) == "<OpOverload(op='aten::add', overload='Tensor')>"
    assert aten.add.Tensor.name() == "aten::add.Tensor" and aten.cat.default.name() == "aten::cat"
    assert aten.add.Tensor.__name__ == "add.Tensor" and aten.cat.default._overloadname == "default"
    assert aten.add.Tensor.overloadpacket is aten.add and aten.add.Tensor is aten.add.Tensor
    assert str(aten.add) == "aten.add" and aten.add.__name__ == "add"
    assert aten.add._qualified_op_name == "aten::add"
    assert isinstance(aten.add.Tensor, ember._ops.OpOverload)
    assert isinstance(aten.add.Tensor._schema, ember._ops.FunctionSchema)


def test_calls():
    x, y = ember.tensor([1.0, 2.0, 3.0]), ember.tensor([3.0, 2.0, 1.0])
    assert aten.add.Tensor(x, y, alpha=2).tolist() == [7, 6, 5]
    assert aten.add.Tensor(self=x, other=y).tolist() == [4, 4, 4] == aten.add(x, y).tolist()
    assert aten.add.Scalar(x, 1).tolist() == [2, 3, 4]
    assert aten.pow.Scalar(2, x).tolist() == [2, 4, 8]
    z = x.clone()
    assert aten.add_.Tensor(z, 5) is z and z.tolist() == [6, 7, 8]
    assert aten.add_.Tensor(self=z, other=y) is z and z.tolist() == [9, 9, 9]
    out = ember.empty(3)
    assert aten.mul.out(x, 3, out=out) is out and out.tolist() == [3, 6, 9]
    assert aten.cat.default((x, y), 0).tolist() == [1, 2, 3, 3, 2, 1]
    pieces = aten.split.Tensor(x, 2)
    assert isinstance(pieces, list) and [len(piece) for piece in pieces] == [2, 1]
    assert [len(p) for p in aten.split.sizes(self=x, split_size=[1, 2])] == [1, 2]
    assert aten.nonzero.default(x).tolist() == [[0], [1], [2]]
    values, indices = ember.empty(1), ember.empty(1, dtype=ember.int64)
    found = aten.topk.values(x, 1, values=values, indices=indices)
    assert values.item() == 3 and indices.item() == 2 and found.values is values
    assert aten.sum.dim_IntList(ember.ones(2, 3), [1]).tolist() == [3, 3]
    assert aten.max.dim(x, 0).values.item() == 3
    assert aten.where.self(x > y, x, y).tolist() == [3, 2, 3]
    assert aten.empty.memory_format([2, 3], dtype=ember.int8).shape == (2, 3)
    assert aten.addr.default(ember.zeros(3, 3), x, y).tolist() == [[3, 2, 1], [6, 4, 2], [9, 6, 3]]


def test_every_operation_has_a_schema():
    """What the module and Tensor have, and take tensors or make them, is there with a schema whose
    arguments the function knows."""
    found = 0
    for name in sorted(set(vars(ember._C)) | set(vars(ember.Tensor))):
        packet = None if name.startswith("_") else getattr(aten, name, None)
        if packet is None:
            continue
        found += 1
        names = packet.overloads()
        assert names and len(names) == len(set(names)), name
        for overload in names:
            op = getattr(packet, overload)
            arguments = op._schema.arguments
            assert len({a.name for a in arguments}) == len(arguments), op
            written = [a for a in arguments if a.alias_info and a.alias_info.is_write]
            if name.endswith("_"):
                assert [a.name for a in written] == ["self"], op
            else:
                assert all(a.is_out for a in written), op
                assert bool(written) == ("out" in overload or any(a.is_out for a in arguments)), op
    assert found > 250


def test_mistakes():
    with pytest.raises(AttributeError, match="'_OpNamespace' 'aten' object has no attribute "
                                             "'convolution'"):
        aten.convolution
    with pytest.raises(AttributeError, match="The underlying op of 'aten.add' has no overload name "
                                             "'Float', expected one of Tensor, out, Scalar"):
        aten.add.Float
    for name in ("tensor", "is_tensor", "get_num_threads", "device", "seed", "__wrapped__"):
        assert not hasattr(aten, name), name
    with pytest.raises(TypeError):
        aten.add.Tensor(ember.ones(1), nonsense=1)
    with pytest.raises(AttributeError, match="not in ember yet"):
        ops.prims


@pytest.mark.needs_devices(1)
def test_what_the_stream_sanitizer_asks():
    """The reads and writes of an operation, as chapter 20 finds them in a schema."""
    def accesses(op, args, kwargs):
        read, written = set(), set()
        values = dict(zip((a.name for a in op._schema.arguments if not a.kwarg_only), args), **kwargs)
        for argument in op._schema.arguments:
            value = values.get(argument.name)
            tensors = value if isinstance(value, list) else [value]
            pointers = {t.data_ptr() for t in tensors if isinstance(t, ember.Tensor) and t.is_cuda}
            is_write = argument.alias_info is not None and argument.alias_info.is_write
            (written if is_write else read).update(pointers)
        return read, written

    a, b = ember.ones(4, device="cuda"), ember.ones(4, device="cuda")
    assert accesses(aten.add.Tensor, (a, b), {}) == ({a.data_ptr(), b.data_ptr()}, set())
    assert accesses(aten.cat.default, ([a, b], 0), {}) == ({a.data_ptr(), b.data_ptr()}, set())
    assert accesses(aten.add_.Tensor, (a, 5), {}) == (set(), {a.data_ptr()})
    assert accesses(aten.mul.out, (a, 3), {"out": b}) == ({a.data_ptr()}, {b.data_ptr()})
