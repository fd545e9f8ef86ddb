"""Optimizers one parameter at a time, straight from their equations."""

import math


class Sgd:
    def __init__(self, rate):
        self.rate = rate
        self.value = 0.0

    def step(self, g):
        self.value -= self.rate * g


class Adagrad(Sgd):
    squares = 0.0

    def step(self, g):
        self.squares += g * g
        if self.squares > 0:
            self.value -= self.rate * g / math.sqrt(self.squares)


class Adam(Sgd):
    mean = square = 0.0
    steps = 0

    def step(self, g):
        self.steps += 1
        self.mean = 0.9 * self.mean + 0.1 * g
        self.square = 0.999 * self.square + 0.001 * g * g
        corrected = self.square / (1 - 0.999**self.steps)
        self.value -= self.rate * self.mean / (1 - 0.9**self.steps) / (math.sqrt(corrected) + 1e-8)


class ScaleFree(Sgd):
    theta = squares = largest = 0.0

    def __init__(self, rate):
        super().__init__(rate)
        self.wealth = rate

    def bet(self):
        radius = math.sqrt(self.squares + self.largest**2)
        if radius > 0:
            sign = math.copysign(1.0, self.theta)
            self.value = sign * min(abs(self.theta) / radius, 1.0) * self.wealth / (2 * radius)

    def meet(self, width):
        self.largest = max(self.largest, width)
        self.bet()

    def step(self, g):
        self.wealth = max(self.wealth - g * self.value, self.rate / 1000)
        self.theta -= g
        self.squares += g * g
        self.largest = max(self.largest, abs(g))
        self.bet()


OPTIMIZERS = {"sgd": Sgd, "adagrad": Adagrad, "adam": Adam, "scale_free": ScaleFree}
