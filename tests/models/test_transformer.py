"""The 2017 Transformer and its parts against formulas written out here, and the surface that the tutorials use."""

from __future__ import annotations

import math

import pytest
import torch

import glassformer
from glassformer import (
    BahdanauAttention,
    DecoderLayer,
    EncoderLayer,
    LayerNorm,
    LuongAttention,
    MultiHeadAttention,
    PositionalEncoding,
    PositionwiseFeedForward,
    ScaledDotProductAttention,
    Transformer,
    TransformerConfig,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
    TransformerForSeq2SeqLM,
)


@pytest.fixture(autouse=True)
def double():
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    with torch.no_grad():
        yield
    torch.set_default_dtype(torch.float32)


def assert_close(a, b, tolerance=1e-10):
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


# --- the formulas, one number at a time -------------------------------------------------------------------------------


def formula_attention(q, k, v, shown=None):
    """softmax(q kᵀ / sqrt(d)) v of one head, T D and S D, by the definition of softmax."""
    out, weights = torch.zeros(len(q), v.shape[1]), torch.zeros(len(q), len(k))
    for i in range(len(q)):
        seen = [j for j in range(len(k)) if shown is None or shown[i, j]]
        powers = [math.exp(float(q[i] @ k[j]) / math.sqrt(q.shape[1])) for j in seen]
        for j, power in zip(seen, powers, strict=True):
            weights[i, j] = power / sum(powers)
            out[i] += weights[i, j] * v[j]
    return out, weights


def formula_heads(attention, q, k, v, shown=None):
    """The heads of one sequence, T C, joined and projected."""
    inner, size = attention.self, attention.d_k
    parts = [x @ project.weight.T + project.bias for x, project in ((q, inner.query), (k, inner.key), (v, inner.value))]
    heads = []
    for h in range(attention.num_heads):
        columns = slice(h * size, (h + 1) * size)
        heads.append(formula_attention(*(part[:, columns] for part in parts), shown)[0])
    joined = torch.cat(heads, 1)
    return joined @ attention.output.dense.weight.T + attention.output.dense.bias


def formula_norm(norm, x):
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    return norm.weight * (x - mean) / torch.sqrt(variance + norm.eps) + norm.bias


def formula_feed_forward(layer, x):
    wide = (x @ layer.intermediate.dense.weight.T + layer.intermediate.dense.bias).clamp(min=0)
    return wide @ layer.output.dense.weight.T + layer.output.dense.bias


def formula_encoder_layer(layer, x):
    if layer.norm_first:
        y = formula_norm(layer.attention.LayerNorm, x)
        x = x + formula_heads(layer.attention, y, y, y)
        return x + formula_feed_forward(layer, formula_norm(layer.LayerNorm, x))
    x = formula_norm(layer.attention.LayerNorm, x + formula_heads(layer.attention, x, x, x))
    return formula_norm(layer.LayerNorm, x + formula_feed_forward(layer, x))


def formula_decoder_layer(layer, x, memory):
    past = torch.ones(len(x), len(x)).tril().bool()
    own, cross = layer.attention, layer.crossattention
    if layer.norm_first:
        y = formula_norm(own.LayerNorm, x)
        x = x + formula_heads(own, y, y, y, past)
        x = x + formula_heads(cross, formula_norm(cross.LayerNorm, x), memory, memory)
        return x + formula_feed_forward(layer, formula_norm(layer.LayerNorm, x))
    x = formula_norm(own.LayerNorm, x + formula_heads(own, x, x, x, past))
    x = formula_norm(cross.LayerNorm, x + formula_heads(cross, x, memory, memory))
    return formula_norm(layer.LayerNorm, x + formula_feed_forward(layer, x))


def formula_positions(length, size):
    table = torch.zeros(length, size)
    for t in range(length):
        for i in range(0, size, 2):
            table[t, i] = math.sin(t / 10000 ** (i / size))
            table[t, i + 1] = math.cos(t / 10000 ** (i / size))
    return table


def formula_transformer(model, src, tgt):
    """One pair of sentences, ids without padding."""
    size = model.config.hidden_size

    def embed(half, ids):
        return half.embeddings.word_embeddings.weight[ids] * math.sqrt(size) + formula_positions(len(ids), size)

    x = embed(model.encoder, src)
    for layer in model.encoder.layer:
        x = formula_encoder_layer(layer, x)
    if model.config.norm_first:
        x = formula_norm(model.encoder.LayerNorm, x)
    y = embed(model.decoder, tgt)
    for layer in model.decoder.layer:
        y = formula_decoder_layer(layer, y, x)
    if model.config.norm_first:
        y = formula_norm(model.decoder.LayerNorm, y)
    scores = y @ model.fc_out.weight.T
    return scores if model.fc_out.bias is None else scores + model.fc_out.bias


# --- the parts --------------------------------------------------------------------------------------------------------


def test_scaled_dot_product_attention():
    q, k, v = torch.randn(2, 3, 4, 8), torch.randn(2, 3, 5, 8), torch.randn(2, 3, 5, 6)
    mask = (torch.rand(2, 1, 4, 5) > 0.4).long()
    mask[0, 0, 1] = 0  # a query that sees nothing
    attention = ScaledDotProductAttention(0.1).eval()
    assert not list(attention.parameters())
    for shown in (None, mask, mask.bool()):
        out, weights = attention(q, k, v, shown)
        for b in range(2):
            for h in range(3):
                if b == 0 and shown is not None:
                    keep = [0, 2, 3]
                    want = formula_attention(q[b, h, keep], k[b, h], v[b, h], mask[b, 0, keep])
                    assert_close((out[b, h, keep], weights[b, h, keep]), want)
                else:
                    seen = None if shown is None else mask[b, 0]
                    assert_close((out[b, h], weights[b, h]), formula_attention(q[b, h], k[b, h], v[b, h], seen))
        if shown is not None:
            assert not weights[(mask == 0).expand_as(weights)].any()  # exactly
            assert not out[0, :, 1].any()
    out, weights = attention(q[:, 0], k[:, 0], v[:, 0])  # without heads too
    assert_close(out[0], formula_attention(q[0, 0], k[0, 0], v[0, 0])[0])


@pytest.mark.parametrize("name", ["num_heads", "n_heads"])
def test_multi_head_attention(name):
    attention = MultiHeadAttention(12, dropout=0.1, **{name: 3}).eval()
    assert (attention.d_model, attention.d_k, attention.num_heads, attention.n_heads) == (12, 4, 3, 3)
    q, k, v = torch.randn(2, 4, 12), torch.randn(2, 5, 12), torch.randn(2, 5, 12)
    mask = torch.ones(2, 1, 4, 5)
    mask[1, :, :, 3:] = 0
    out, weights = attention(q, k, v, mask)
    assert weights.shape == (2, 3, 4, 5)
    for b in range(2):
        assert_close(out[b], formula_heads(attention, q[b], k[b], v[b], mask[b, 0]))
    assert_close(weights.sum(-1), torch.ones(2, 3, 4))
    assert_close(attention(q, k, v, mask[:, 0])[0], out)  # B T S
    assert_close(attention(q, k, v, mask[:, :, :1])[0], out)  # B 1 1 S
    with pytest.raises(glassformer.InputError, match="mask must fit the weights"):
        attention(q, k, v, mask[:, :, :, :4])
    with pytest.raises(ValueError, match="multiple of num_attention_heads, got 12 and 5"):
        MultiHeadAttention(12, 5)
    with pytest.raises(glassformer.ArgumentError, match="num_heads and n_heads are the same"):
        MultiHeadAttention(12, 3, n_heads=4)
    with pytest.raises(glassformer.ArgumentError, match="num_heads is missing"):
        MultiHeadAttention(12)


def test_multi_head_attention_has_the_tutorials_place_for_heads():
    assert MultiHeadAttention(12, 3, 0.2).self.dropout.p == 0.2
    assert sum(p.numel() for p in MultiHeadAttention(512, 8).parameters()) == 4 * (512 * 512 + 512)


def test_positions():
    encoding = PositionalEncoding(6, max_len=20, dropout=0.0)
    assert not list(encoding.parameters())
    assert encoding.pe.shape == (1, 20, 6)
    assert_close(encoding.pe[0].double(), formula_positions(20, 6), 1e-6)
    x = torch.randn(2, 5, 6)
    assert_close(encoding(x), x + encoding.pe[:, :5])
    assert_close(encoding(x[0], torch.tensor([4, 3, 2, 1, 0])), x[0] + encoding.pe[0, :5].flip(0))
    assert PositionalEncoding(6).pe.shape == (1, 5000, 6)
    with pytest.raises(ValueError, match="21 positions are more than max_len 20"):
        encoding(torch.zeros(1, 21, 6))


def test_feed_forward_and_norm():
    part = PositionwiseFeedForward(6, 10, 0.1).eval()
    first, second = (module for module in part.modules() if isinstance(module, torch.nn.Linear))
    x = torch.randn(2, 3, 6)
    assert_close(part(x), (x @ first.weight.T + first.bias).clamp(min=0) @ second.weight.T + second.bias)
    norm = LayerNorm(6)
    assert norm.eps == 1e-6
    assert norm.gamma.tolist() == [1.0] * 6
    assert norm.beta.tolist() == [0.0] * 6
    norm.gamma.data, norm.beta.data = torch.randn(6), torch.randn(6)
    mean, variance = x.mean(-1, keepdim=True), x.var(-1, unbiased=False, keepdim=True)
    assert_close(norm(x), norm.gamma * (x - mean) / (variance + 1e-6).sqrt() + norm.beta)


def test_layers():
    assert TransformerEncoderLayer is EncoderLayer
    assert TransformerDecoderLayer is DecoderLayer
    encoder, decoder = EncoderLayer(12, 3, 20, 0.1).eval(), DecoderLayer(12, 3, 20, 0.1).eval()
    x, memory = torch.randn(2, 4, 12), torch.randn(2, 5, 12)
    src, tgt = torch.ones(2, 1, 1, 5).bool(), torch.ones(4, 4).tril().bool().expand(2, 1, 4, 4)
    src[1, ..., 3:] = False
    read = encoder(memory, src)
    written = decoder(x, memory, src, tgt)
    for b, length in ((0, 5), (1, 3)):
        assert_close(read[b, :length], formula_encoder_layer(encoder, memory[b, :length]))
        assert_close(written[b], formula_decoder_layer(decoder, x[b], memory[b, :length]))
    assert_close(decoder(x, memory, tgt_mask=tgt, src_mask=src), written)
    assert not torch.allclose(decoder(x, memory, src), written)  # the future is seen without a mask
    with pytest.raises(glassformer.InputError, match="mask must fit"):
        encoder(memory, torch.ones(2, 1, 1, 4))


def test_additive_attention():
    attention = BahdanauAttention(6)
    query, keys, values = torch.randn(2, 6), torch.randn(2, 5, 6), torch.randn(2, 5, 6)
    context, weights = attention(query, keys, values)
    assert (context.shape, weights.shape) == ((2, 6), (2, 5, 1))
    for b in range(2):
        hidden = [
            attention.W_h.weight @ key + attention.W_h.bias + attention.W_s.weight @ query[b] + attention.W_s.bias
            for key in keys[b]
        ]
        scores = [float(attention.v.weight[0] @ torch.tanh(h) + attention.v.bias[0]) for h in hidden]
        check_context(context[b], weights[b, :, 0], scores, values[b])
    assert_close(attention(query, keys)[0], attention(query, keys, keys)[0])
    hidden = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    masked, shares = attention(query, keys, values, hidden)
    assert_close(masked[0], attention(query[:1], keys[:1, :3], values[:1, :3])[0][0])
    assert not shares[0, 3:].any()


@pytest.mark.parametrize("method", ["dot", "general", "concat"])
def test_multiplicative_attention(method):
    attention = LuongAttention(6, method=method)
    assert attention.method == method
    query, keys, values = torch.randn(2, 6), torch.randn(2, 5, 6), torch.randn(2, 5, 6)
    context, weights = attention(query, keys, values)
    assert (context.shape, weights.shape) == ((2, 6), (2, 5))
    for b in range(2):
        if method == "concat":
            pairs = [torch.cat((query[b], key)) for key in keys[b]]
            hidden = [torch.tanh(attention.W.weight @ pair + attention.W.bias) for pair in pairs]
            scores = [float(attention.v.weight[0] @ h + attention.v.bias[0]) for h in hidden]
        else:
            asked = query[b] if method == "dot" else attention.W.weight @ query[b]
            scores = [float(asked @ key) for key in keys[b]]
        check_context(context[b], weights[b], scores, values[b])
    if method == "general":
        assert attention.W.bias is None


def test_unknown_attention_methods_are_refused():
    with pytest.raises(ValueError, match="did you mean 'general'"):
        LuongAttention(6, method="genral")


def check_context(context, weights, scores, values):
    powers = [math.exp(score) for score in scores]
    shares = torch.tensor([power / sum(powers) for power in powers])
    assert_close(weights, shares)
    assert_close(context, sum(share * value for share, value in zip(shares, values, strict=True)))


# --- the whole --------------------------------------------------------------------------------------------------------


def test_the_tutorials_transformer():
    model = Transformer(30, 40, d_model=12, n_heads=3, n_layers=2, d_ff=20, dropout=0.1, max_len=16).eval()
    assert (model.src_embedding.num_embeddings, model.tgt_embedding.num_embeddings) == (30, 40)
    assert (len(model.encoder_layers), len(model.decoder_layers), model.d_model) == (2, 2, 12)
    assert isinstance(model.encoder_layers[0], EncoderLayer)
    assert isinstance(model.decoder_layers[0], DecoderLayer)
    assert isinstance(model.pos_encoding, PositionalEncoding)
    assert model.fc_out.out_features == 40
    assert model.fc_out.bias is not None
    src, tgt = torch.tensor([[5, 6, 7, 8], [9, 3, 0, 0]]), torch.tensor([[1, 11, 12], [1, 13, 0]])
    src_mask, tgt_mask = model.make_src_mask(src), model.make_tgt_mask(tgt)
    assert src_mask.tolist() == [[[[True] * 4]], [[[True, True, False, False]]]]
    assert tgt_mask[1, 0].tolist() == [[True, False, False], [True, True, False], [True, True, False]]
    assert tgt_mask.shape == (2, 1, 3, 3)
    out = model(src, tgt)
    assert out.shape == (2, 3, 40)
    assert_close(out[0], formula_transformer(model, src[0], tgt[0]), 1e-6)
    assert_close(out[1, :2], formula_transformer(model, src[1, :2], tgt[1, :2]), 1e-6)
    assert_close(model(src, tgt, src_mask, tgt_mask), out)
    memory = model.encode(src, src_mask)
    assert_close(model.fc_out(model.decode(tgt, memory, src_mask, tgt_mask)), out)
    assert not torch.allclose(model(src, tgt, tgt_mask=torch.ones(3, 3)), out)
    with pytest.raises(ValueError, match="17 positions are more than"):
        model(torch.ones(1, 17).long(), tgt[:1])


def test_parts_are_replaced_by_the_tutorials_names():
    model = Transformer(30, 40, d_model=12, n_heads=3, n_layers=2, d_ff=20, max_len=16).eval()
    src, tgt = torch.tensor([[5, 6, 7]]), torch.tensor([[1, 11, 12]])
    names, before = set(model.state_dict()), model(src, tgt)
    known = torch.nn.Embedding.from_pretrained(torch.randn(30, 12))
    model.src_embedding = known
    assert model.src_embedding is model.encoder.embeddings.word_embeddings is known
    assert not torch.allclose(model(src, tgt), before)
    model.pos_encoding = PositionalEncoding(12, max_len=8)
    assert model.decoder.embeddings.pos_encoding is model.encoder.embeddings.pos_encoding is model.pos_encoding
    model.decoder_layers = torch.nn.ModuleList(list(model.decoder_layers)[:1])
    assert len(model.decoder.layer) == 1
    assert set(model.state_dict()) == {name for name in names if not name.startswith("decoder.layer.1")}
    with pytest.raises(AttributeError, match="no attribute 'src_embeddings'"):
        model.src_embeddings  # noqa: B018


def test_the_other_tutorials_names():
    model = Transformer(
        30, 40, d_model=12, num_heads=3, num_encoder_layers=1, num_decoder_layers=2, d_ff=20, max_seq_len=16
    )
    assert (len(model.encoder_layers), len(model.decoder_layers)) == (1, 2)
    assert model.encoder_layers[0].attention.num_heads == 3
    assert model.pos_encoding.pe.shape == (1, 16, 12)
    assert Transformer.without_weights(TransformerConfig()).config.num_attention_heads == 8
    positional = Transformer(30, 40, 12, 3, 2, 20, 0.0, 16)
    assert len(positional.decoder_layers) == 2
    other = Transformer(30, 40, 12, 3, 1, 2, 20, 16, 0.5)
    assert (len(other.encoder_layers), len(other.decoder_layers), other.dropout.p) == (1, 2, 0.5)
    assert len(Transformer(30, 40, 12, 3, 6).decoder_layers) == 6
    for sizes in ((2,), (2, 20), (2, 20, 0.1, 16, 3), (2, 20, 1.5)):
        with pytest.raises(glassformer.ArgumentError, match=r"num_encoder_layers.* or n_layers.*: give these by name"):
            Transformer(30, 40, 12, 3, *sizes)
    with pytest.raises(TypeError, match="multiple values for keyword argument 'd_ff'"):
        Transformer(30, 40, 12, 3, 2, 20, 0.0, d_ff=20)
    with pytest.raises(glassformer.ArgumentError, match="n_layers and num_encoder_layers are the same"):
        Transformer(30, 40, 12, 3, n_layers=2, num_encoder_layers=2)
    with pytest.raises(ValueError, match="multiple of num_attention_heads"):
        Transformer(30, 40, d_model=10, n_heads=3)
    with pytest.raises(TypeError, match="unexpected keyword"):
        Transformer(30, 40, n_head=3)


def test_second_names_are_the_same_parts():
    attention, inner = (made := MultiHeadAttention(12, 3, 0.0)), made.self
    for lower, upper, part in (("W_q", "W_Q", inner.query), ("W_k", "W_K", inner.key), ("W_v", "W_V", inner.value)):
        assert getattr(attention, lower) is getattr(attention, upper) is part
    assert attention.W_o is attention.W_O is attention.output.dense
    assert not [name for name, _ in attention.named_parameters() if "W_" in name]
    assert "W_q" in dir(attention)
    feed_forward = PositionwiseFeedForward(12, 20)
    assert feed_forward.fc1 is feed_forward.intermediate.dense
    assert feed_forward.fc2 is feed_forward.output
    layer = DecoderLayer(12, 3, 20)
    assert layer.self_attn is layer.masked_self_attn is layer.attention
    assert layer.enc_dec_attn is layer.cross_attn is layer.crossattention
    norms = (layer.attention.LayerNorm, layer.crossattention.LayerNorm, layer.LayerNorm)
    assert all(a is b for a, b in zip((layer.norm1, layer.norm2, layer.norm3), norms, strict=True))
    assert EncoderLayer(12, 3, 20).norm2.normalized_shape == (12,)
    assert layer.fc1 is layer.ffn.fc1 is layer.ff[0] is layer.intermediate.dense
    assert layer.fc2 is layer.ffn.fc2 is layer.ff[3] is layer.output.dense
    with pytest.raises(AttributeError, match="no attribute 'enc_dec_attn'"):
        EncoderLayer(12, 3, 20).enc_dec_attn  # noqa: B018


def test_parts_of_layers_are_replaced_by_second_names():
    layer, x = EncoderLayer(12, 3, 20).eval(), torch.randn(2, 4, 12)
    before, names = layer(x), list(layer.state_dict())
    layer.norm1 = torch.nn.LayerNorm(12, elementwise_affine=False, eps=0.5)
    assert layer.attention.LayerNorm.eps == 0.5
    assert not torch.allclose(layer(x), before)
    layer.self_attn.W_q = torch.nn.Linear(12, 12)
    assert set(layer.state_dict()) < set(names)
    with pytest.raises(glassformer.ArgumentError, match=r"EncoderLayer\.ffn is made of other parts"):
        layer.ffn = PositionwiseFeedForward(12, 20)
    attention = MultiHeadAttention(12, 3)
    attention.dropout = torch.nn.Dropout(0.75)
    assert attention.self.dropout.p == attention.output.dropout.p == 0.75


def test_second_names_of_arguments():
    attention = MultiHeadAttention(12, 3).eval()
    q, k, v, mask = torch.randn(2, 3, 12), torch.randn(2, 4, 12), torch.randn(2, 4, 12), torch.ones(3, 4).tril()
    expected = attention(q, k, v, mask)
    for names in (("q", "k", "v"), ("query", "key", "value"), ("Q", "K", "V")):
        given = attention(**dict(zip(names, (q, k, v), strict=True)), mask=mask)
        assert all(map(torch.equal, given, expected))
    heads = [attention.split_heads(x) for x in (attention.W_q(q), attention.W_k(k), attention.W_v(v))]
    context, weights = attention.scaled_dot_product_attention(*heads, mask)
    assert torch.equal(weights, expected[1])
    assert torch.equal(attention.W_o(attention.combine_heads(context)), expected[0])
    assert torch.equal(attention.attention(*heads, mask)[0], context)
    with pytest.raises(glassformer.ArgumentError, match="q and query are the same; give one of them"):
        attention(q=q, query=q, k=k, v=v)
    with pytest.raises(glassformer.ArgumentError, match="has no argument 'querry', did you mean 'query'"):
        attention(querry=q, key=k, value=v)
    layer = DecoderLayer(12, 3, 20).eval()
    out = layer(q, k)
    assert torch.equal(layer(q, enc_output=k), out)
    assert torch.equal(layer(x=q, encoder_output=k), out)


def test_a_layer_computed_from_its_parts_as_the_tutorials_print_it():
    layer = DecoderLayer(12, 3, 20).eval()
    x, memory, past, real = (
        torch.randn(2, 3, 12),
        torch.randn(2, 4, 12),
        torch.ones(3, 3).tril(),
        torch.ones(2, 1, 1, 4),
    )
    real[1, ..., 2:] = 0
    expected = layer(x, memory, real, past)
    x = layer.norm1(x + layer.masked_self_attn(x, x, x, past)[0])
    x = layer.norm2(x + layer.enc_dec_attn(query=x, key=memory, value=memory, mask=real)[0])
    assert_close(layer.norm3(x + layer.ffn(x)), expected, 1e-10)


@pytest.mark.parametrize("attention", ["W_q", "W_Q"])
def test_weights_by_the_tutorials_names(attention):
    shape = {"d_model": 12, "n_heads": 3, "num_encoder_layers": 1, "num_decoder_layers": 2, "d_ff": 20, "max_len": 16}
    model, other = Transformer(30, 40, **shape).eval(), Transformer(30, 40, **shape).eval()
    src, tgt = torch.tensor([[5, 6, 7]]), torch.tensor([[1, 11, 12]])
    state = model.tutorial_state_dict(attention)
    assert f"encoder_layers.0.self_attn.{attention}.weight" in state
    assert len(state) == len(model.state_dict()) + 1  # and pos_encoding.pe
    assert not torch.equal(other(src, tgt), model(src, tgt))
    other.load_state_dict(state)
    assert torch.equal(other(src, tgt), model(src, tgt))
    with pytest.raises(
        RuntimeError, match=r"(?s)Missing key.*decoder\.layer\.1\.LayerNorm\.weight.*Unexpected key.*extra"
    ):
        other.load_state_dict({name: state[name] for name in state if "1.norm3.w" not in name} | {"extra": src})
    with pytest.raises(glassformer.WeightsError, match=r"pos_encoding\.pe must hold the sines and cosines"):
        other.load_state_dict(state | {"pos_encoding.pe": state["pos_encoding.pe"] * 2})
    other.load_state_dict(state | {"pos_encoding.pe": state["pos_encoding.pe"][:, :8]})


def test_weights_that_the_tutorials_have_no_names_for_are_refused():
    config = {"vocab_size": 20, "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "output_bias": True}
    for fields, message in (
        ({"norm_first": True}, r"no place for encoder\.LayerNorm\.weight"),
        ({"hidden_act": "gelu"}, "this model has 'gelu' and 1e-05"),
        ({"position_embedding_type": "learned"}, r"no place for encoder\.embeddings\.position_embeddings"),
        ({"output_bias": False}, "a bias in fc_out, which this model has not"),
    ):
        with pytest.raises(glassformer.ConfigError, match=message):
            Transformer(TransformerConfig(**(config | fields))).tutorial_state_dict()
    with pytest.raises(glassformer.ArgumentError, match="attention must be one of W_q, W_Q; got 'W_x'"):
        Transformer(TransformerConfig(**config)).tutorial_state_dict("W_x")


def test_the_tutorials_transformer_is_one_of_the_house(tmp_path):
    torch.set_default_dtype(torch.float32)
    model = Transformer(30, 40, d_model=12, n_heads=3, n_layers=2, d_ff=20, max_len=16).eval()
    src, tgt = torch.tensor([[5, 6, 7, 8], [9, 3, 0, 0]]), torch.tensor([[1, 11, 12], [1, 13, 0]])
    seen = model(src, tgt, output_attentions=True)
    plain = model(src, tgt)
    assert_close(seen.logits[tgt != 0], plain[tgt != 0], 1e-5)
    assert [len(seen[name]) for name in ("encoder_attentions", "decoder_attentions", "cross_attentions")] == [2, 2, 2]
    model.save_pretrained(tmp_path)
    assert torch.equal(Transformer.from_pretrained(tmp_path)(src, tgt), plain)
    same = glassformer.AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    assert type(same) is TransformerForSeq2SeqLM
    assert torch.equal(same.generate(src, max_new_tokens=4), model.generate(src, max_new_tokens=4))
    with pytest.raises(glassformer.InputError, match="uses the padding as mask: pass no src_mask or tgt_mask"):
        model(src, tgt, model.make_src_mask(src), output_attentions=True)


@pytest.mark.parametrize(
    "fields",
    [{}, {"norm_first": True}, {"share_embeddings": False, "tie_word_embeddings": False, "output_bias": True}],
    ids=["post-norm", "pre-norm", "separate"],
)
def test_the_stream_computes_the_formulas(fields):
    shape = {"hidden_size": 12, "num_attention_heads": 3, "num_hidden_layers": 2, "intermediate_size": 20}
    model = TransformerForSeq2SeqLM(TransformerConfig(vocab_size=40, **shape, **fields)).eval()
    src, tgt = torch.tensor([[5, 6, 7, 8], [9, 3, 0, 0]]), torch.tensor([[1, 11, 12], [1, 13, 0]])
    logits = model(src, src != 0, tgt, tgt != 0).logits
    assert_close(logits[0], formula_transformer(model, src[0], tgt[0]), 1e-6)
    assert_close(logits[1, :2], formula_transformer(model, src[1, :2], tgt[1, :2]), 1e-6)


def test_embeddings_are_shared_as_the_config_says():
    shape = {"vocab_size": 20, "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1}
    shared = TransformerForSeq2SeqLM(TransformerConfig(**shape))
    words = shared.encoder.embeddings.word_embeddings.weight
    assert shared.decoder.embeddings.word_embeddings.weight is words
    assert shared.fc_out.weight is words
    apart = TransformerForSeq2SeqLM(TransformerConfig(**shape, share_embeddings=False))
    assert apart.decoder.embeddings.word_embeddings.weight is not apart.encoder.embeddings.word_embeddings.weight
    assert apart.fc_out.weight is apart.decoder.embeddings.word_embeddings.weight
    with pytest.raises(glassformer.ConfigError, match="one vocabulary, got 21 and 20"):
        TransformerConfig(**shape, source_vocab_size=21)
    shared.resize_token_embeddings(25)
    assert shared.fc_out.weight.shape == (25, 8)
    assert shared.decoder.embeddings.word_embeddings.weight is shared.fc_out.weight
    with pytest.raises(glassformer.InputError, match="vocabularies of their own"):
        apart.resize_token_embeddings(25)


@pytest.mark.parametrize("heads", [0, -4, 5])
def test_heads_that_cannot_share_the_width_are_refused(heads):
    for make in (MultiHeadAttention, EncoderLayer, lambda width, heads: Transformer(30, 40, width, heads)):
        with pytest.raises(glassformer.ConfigError, match=f"num_attention_heads.*{heads}"):
            make(12, heads)


def test_shapes_that_do_not_fit_are_reported():
    model, attention = Transformer(30, 40, 12, 3, n_layers=2, d_ff=20).eval(), MultiHeadAttention(12, 3)
    src, tgt, x = torch.tensor([[5, 6, 7]]), torch.tensor([[1, 8]]), torch.randn(2, 4, 12)
    memory = model.encode(src)
    encoder, decoder = EncoderLayer(12, 3, 20), DecoderLayer(12, 3, 20)
    for call, told in (
        (lambda: model(torch.tensor([[5, 30]]), tgt), r"^src: id 30 at \[0, 1\] is not between 0 and 29"),
        (lambda: model(src, torch.tensor([[40]])), r"^tgt: id 40 at \[0, 0\] is not between 0 and 39"),
        (lambda: model(src[0], tgt), r"^src must have the shape B T"),
        (lambda: encoder(x[0]), r"a layer takes B T 12, got queries \[4, 12\]"),
        (lambda: encoder(x[..., :8]), r"a layer takes B T 12, got queries \[2, 4, 8\]"),
        (lambda: decoder(x, x[:1]), r"a layer takes B T 12, got queries \[2, 4, 12\] and keys \[1, 4, 12\]"),
        (lambda: decoder(x, None), "the input of a layer must be a tensor, got NoneType"),
        (lambda: model([[1, 2]], tgt), "src must be a tensor, got list"),
        (lambda: model(src, [[1, 2]]), "tgt must be a tensor, got list"),
        (lambda: model(src, tgt.repeat(3, 1)), r"shape \[3, positions, 12\], got \[1, 3, 12\]"),
        (lambda: model.decode(tgt, memory[..., :6]), r"shape \[1, positions, 12\], got \[1, 3, 6\]"),
        (lambda: attention(x[..., :8], x, x), r"q must have the shape B T 12, got \[2, 4, 8\]"),
        (lambda: attention(x, x, x[:, :3]), "k and v equally long"),
        (lambda: attention(x[:1], x, x), "of one batch"),
        (lambda: model.decoder.encode(tgt, memory=model.encoder.encode(src), state=memory), "keeps no state"),
    ):
        with pytest.raises(glassformer.InputError, match=told):
            call()
