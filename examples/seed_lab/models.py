"""The three models in PyTorch, as plainly as their papers."""
import math

import torch
from torch import nn


class Reviews(nn.Module):
    """An Elman network over words, h_i = tanh(W x_i + b + U h_{i-1}); the mean of the h_i, or their average with learned
    weights, is scored for each class."""

    def __init__(self, n_words, n_classes, attends, d_word=32, width=48, d_key=32):
        super().__init__()
        self.embedding = nn.Embedding(n_words, d_word)
        self.rnn = nn.RNN(d_word, width, batch_first=True)
        self.ask = nn.Linear(width, d_key, bias=False) if attends else None
        self.key = nn.Linear(width, d_key, bias=False) if attends else None
        self.classes = nn.Linear(width, n_classes)

    def forward(self, tokens, lengths):
        """tokens [texts, words], padded behind; gives h [texts, words, width], scores [texts, classes] and weights [texts,
        words]."""
        h, _ = self.rnn(self.embedding(tokens))
        there = torch.arange(tokens.shape[1])[None, :] < lengths[:, None]
        if self.ask is None:
            weights = there / lengths[:, None]
        else:   # the last hidden state asks all of them
            q = self.ask(h[torch.arange(len(h)), lengths - 1])
            scores = torch.einsum("tk,twk->tw", q, self.key(h)) / math.sqrt(q.shape[1])
            weights = scores.masked_fill(~there, -math.inf).softmax(dim=1)
        return h, self.classes(torch.einsum("tw,twd->td", weights, h)), weights


def sinusoids(tokens, d):
    """sin and cos of position * 10000^(-2i / d), in turn."""
    angles = torch.arange(tokens, dtype=torch.float64)[:, None] * 10000.0 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    return torch.stack((angles.sin(), angles.cos()), dim=2).reshape(tokens, d).float()


class Attention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.output = (nn.Linear(d, d, bias=False) for _ in range(4))

    def forward(self, x, read, hidden):
        """x [texts, queries, d] asks read [texts, keys, d]; what `hidden` marks is not seen."""
        def split(y):
            return y.reshape(*y.shape[:2], self.heads, -1).transpose(1, 2)

        q, k, v = split(self.q(x)), split(self.k(read)), split(self.v(read))
        scores = (q @ k.transpose(2, 3) / math.sqrt(q.shape[3])).masked_fill(hidden, -math.inf)
        weights = scores.softmax(dim=3)   # [texts, heads, queries, keys]
        return self.output((weights @ v).transpose(1, 2).reshape(x.shape)), weights


class Layer(nn.Module):
    """Norms before the layers; a decoder's layer reads the encoder too."""

    def __init__(self, d, heads, d_ff, reads):
        super().__init__()
        self.attn_norm, self.attn = nn.LayerNorm(d), Attention(d, heads)
        if reads:
            self.cross_norm, self.cross = nn.LayerNorm(d), Attention(d, heads)
        self.ffn_norm, self.up, self.down = nn.LayerNorm(d), nn.Linear(d, d_ff), nn.Linear(d_ff, d)

    def forward(self, x, hidden, read=None, read_hidden=None):
        h = self.attn_norm(x)
        x = x + self.attn(h, h, hidden)[0]
        weights = None
        if read is not None:
            found, weights = self.cross(self.cross_norm(x), read, read_hidden)
            x = x + found
        return x + self.down(torch.relu(self.up(self.ffn_norm(x)))), weights


class Dates(nn.Module):
    """A small transformer with an encoder and a decoder. https://arxiv.org/abs/1706.03762"""

    def __init__(self, n_words, d=64, heads=4, d_ff=128, layers=2, decoder_layers=1):
        super().__init__()
        self.embedding = nn.Embedding(n_words, d)
        self.encoder = nn.ModuleList(Layer(d, heads, d_ff, False) for _ in range(layers))
        self.encoder_norm = nn.LayerNorm(d)
        self.decoder = nn.ModuleList(Layer(d, heads, d_ff, True) for _ in range(decoder_layers))
        self.decoder_norm = nn.LayerNorm(d)
        self.output = nn.Linear(d, n_words, bias=False)

    def embed(self, tokens):
        x = self.embedding(tokens)
        return x + sinusoids(*x.shape[1:])

    def read(self, tokens, hidden):
        x = self.embed(tokens)
        for layer in self.encoder:
            x, _ = layer(x, hidden)
        return self.encoder_norm(x)

    def forward(self, tokens, answers, pad):
        """What the encoder makes of tokens [texts, words], the logits behind each of answers [texts, pieces], and how the last
        layer of the decoder weighed the words [texts, heads, pieces, words]."""
        hidden = (tokens == pad)[:, None, None, :]
        read = self.read(tokens, hidden)
        future = torch.ones(answers.shape[1], answers.shape[1], dtype=torch.bool).triu(1)
        x, weights = self.embed(answers), None
        for layer in self.decoder:
            x, weights = layer(x, future, read, hidden)
        return read, self.output(self.decoder_norm(x)), weights
