// Compares the kernels with plain loops in double precision.
#include "emulator.h"

#include KERNELS_FILE

#include <algorithm>
#include <random>

static int failures = 0;
static std::mt19937 random_numbers(5);

static double uniform() { return random_numbers() / 4294967296.0; }

static void near(const char *what, double found, double expected, double bound) {
    if (!(std::fabs(found - expected) <= bound) && ++failures <= 20)
        printf("%s: %.9g instead of %.9g\n", what, found, expected);
}

template <typename T> static std::vector<T> drawn(size_t count, double width) {
    std::vector<T> all(count);
    for (T &place : all)
        set(&place, (uniform() - 0.5) * width);
    return all;
}

// Relative rounding of a number format.
template <typename T> static double rounding() { return sizeof(T) == 2 ? 1.0 / 256 : 1e-6; }

// Softmax of a row in double precision.
struct Exact {
    std::vector<double> shares;
    double log_sum = 0, entropy = 0;
    template <typename T> Exact(const T *row, long long size, double scale) {
        double most = -INFINITY, sum = 0;
        for (long long at = 0; at < size; at++)
            most = std::max(most, number(row[at]) * scale);
        for (long long at = 0; at < size; at++)
            sum += std::exp(number(row[at]) * scale - most);
        log_sum = most + std::log(sum);
        for (long long at = 0; at < size; at++) {
            double log_prob = number(row[at]) * scale - log_sum;
            shares.push_back(std::exp(log_prob));
            if (shares.back() > 0)
                entropy -= shares.back() * log_prob;
        }
    }
};

template <typename T> static void check_softmax(long long size, double width, float scale) {
    const int ROWS = 3;
    auto logits = drawn<T>(ROWS * size, width);
    set(&logits[size + 1], NONE);
    std::vector<long long> targets = {0, size / 2, size - 1};
    std::vector<float> numbers(3 * ROWS), by_log_probs = {1.5f, -0.5f, 0.25f}, by_entropies = {0.0f, 2.0f, -1.0f};
    emulator::launch(ROWS, THREADS, [&] { log_probs(logits.data(), size, scale, targets.data(), numbers.data()); });
    auto before = logits;
    emulator::launch(ROWS, THREADS, [&] {
        gradient(logits.data(), size, scale, targets.data(), numbers.data(), by_log_probs.data(), by_entropies.data());
    });
    for (int row = 0; row < ROWS; row++) {
        const T *own = &before[row * size];
        Exact exact(own, size, scale);
        double target = number(own[targets[row]]) * scale - exact.log_sum;
        near("log-probability", numbers[row], target, 1e-5 * (1 + std::fabs(target)));
        near("logarithm of the sum", numbers[ROWS + row], exact.log_sum, 1e-5 * (1 + std::fabs(exact.log_sum)));
        near("entropy", numbers[2 * ROWS + row], exact.entropy, 1e-4);
        for (long long at = 0; at < size; at++) {
            double share = exact.shares[at], log_prob = share > 0 ? std::log(share) : 0;
            double expected = by_log_probs[row] * ((at == targets[row]) - share);
            expected = scale * (expected - by_entropies[row] * share * (log_prob + exact.entropy));
            near("gradient", number(logits[row * size + at]), expected, rounding<T>() * std::fabs(expected) + 1e-5);
        }
    }
}

template <typename T> static void check_sampling(long long size, double width) {
    const int ROWS = 12;
    auto logits = drawn<T>(ROWS * size, width);
    std::vector<double> choices(3 * ROWS), chosen(3 * ROWS);
    for (int row = 0; row < ROWS; row++) {
        choices[row] = row % 3 == 0 ? 1.0 : 0.5;
        choices[ROWS + row] = row == 1 ? 0.0 : row == 2 ? 1 - 1e-12 : uniform();
        choices[2 * ROWS + row] = row % 4 == 3;
    }
    emulator::launch(ROWS, THREADS, [&] { sample(logits.data(), size, choices.data(), chosen.data()); });
    for (int row = 0; row < ROWS; row++) {
        const T *own = &logits[row * size];
        Exact exact(own, size, choices[row]);
        long long token = (long long)chosen[row];
        if (token < 0 || token >= size) {
            near("token", token, 0, 0);
            continue;
        }
        if (choices[2 * ROWS + row] == 1) {
            for (long long at = 0; at < size; at++)
                if (number(own[at]) > number(own[token]) || (number(own[at]) == number(own[token]) && at < token))
                    near("greedy token", token, at, 0);
        } else {
            double before = 0, goal = choices[ROWS + row];
            for (long long at = 0; at < token; at++)
                before += exact.shares[at];
            // Rounding may put this row's goal beyond the last token; then the most probable one is taken.
            bool beyond = row == 2 && exact.shares[token] == *std::max_element(exact.shares.begin(), exact.shares.end());
            if (!beyond && (before > goal + 1e-5 || before + exact.shares[token] < goal - 1e-5))
                near("sampled token", before, goal, 0);
        }
        near("log-probability of the token", chosen[ROWS + row], std::log(exact.shares[token]), 1e-4);
        near("entropy of the token", chosen[2 * ROWS + row], exact.entropy, 1e-4);
    }
}

template <typename T> static void check_layer(long long width) {
    const int ROWS = 2;
    auto stream = drawn<T>(ROWS * width, 4), more = drawn<T>(ROWS * width, 4), weight = drawn<T>(width, 2);
    std::vector<T> normed(ROWS * width), out(width);
    for (bool adds : {false, true}) {
        auto before = stream;
        emulator::launch(ROWS, THREADS, [&] {
            add_norm(stream.data(), adds ? more.data() : nullptr, weight.data(), width, 1e-6f, normed.data());
        });
        for (int row = 0; row < ROWS; row++) {
            double squares = 0;
            for (long long at = row * width; at < (row + 1) * width; at++) {
                double expected = number(before[at]) + (adds ? number(more[at]) : 0.0);
                near("residual stream", number(stream[at]), expected, rounding<T>() * (1 + std::fabs(expected)));
                squares += (double)number(stream[at]) * number(stream[at]);
            }
            for (long long at = 0; at < width; at++) {
                double x = number(stream[row * width + at]);
                double expected = x / std::sqrt(squares / width + 1e-6) * number(weight[at]);
                near("norm", number(normed[row * width + at]), expected, rounding<T>() * (1e-3 + std::fabs(expected)));
            }
        }
    }
    auto wide = drawn<T>(2 * width, 8);
    emulator::launch(1, THREADS, [&] { gated(wide.data(), width, out.data()); });
    for (long long at = 0; at < width; at++) {
        double x = number(wide[at]), expected = x / (1 + std::exp(-x)) * number(wide[width + at]);
        near("gate", number(out[at]), expected, 2 * rounding<T>() * (1e-3 + std::fabs(expected)));
    }
}

template <typename T> static void check_attention(long long kv_heads, long long group, long long size, bool normalises) {
    const int ROWS = 3, SLOTS = 3, POSITIONS = 600;
    long long heads = kv_heads * group, all = heads + 2 * kv_heads;
    std::vector<long long> positions = {0, 5, POSITIONS - 2}, slots = {2, 0, 1}, places(ROWS);
    for (int row = 0; row < ROWS; row++)
        places[row] = slots[row] * POSITIONS + positions[row];
    auto fed = drawn<T>(ROWS * all * size, 4), norms = drawn<T>((heads + kv_heads) * size, 2);
    auto keys = drawn<T>(SLOTS * POSITIONS * kv_heads * size, 2), values = drawn<T>(keys.size(), 2);
    std::vector<float> cosines(POSITIONS * size), sines(cosines.size());
    for (long long at = 0; at < (long long)cosines.size(); at++) {
        double angle = (at / size) / std::pow(100.0, (at % (size / 2)) / (size / 2.0));
        cosines[at] = std::cos(angle);
        sines[at] = (at % size < size / 2 ? -1 : 1) * std::sin(angle);
    }
    std::vector<T> queries(ROWS * heads * size), attended(queries.size());
    emulator::launch(ROWS, THREADS, [&] {
        rotate(fed.data(), heads, kv_heads, size, normalises ? norms.data() : nullptr, 1e-6f, cosines.data(),
               sines.data(), positions.data(), places.data(), queries.data(), keys.data(), values.data());
    });
    for (int row = 0; row < ROWS; row++)
        for (long long head = 0; head < all; head++) {
            const T *own = &fed[(row * all + head) * size];
            double squares = 0;
            for (long long at = 0; at < size; at++)
                squares += (double)number(own[at]) * number(own[at]);
            auto x = [&](long long at) {
                double share = normalises ? number(norms[head * size + at]) / std::sqrt(squares / size + 1e-6) : 1;
                return number(own[at]) * share;
            };
            for (long long at = 0; at < size; at++) {
                long long cached = (places[row] * kv_heads + (head - heads) % kv_heads) * size + at;
                if (head >= heads + kv_heads) {
                    near("cached value", number(values[cached]), number(own[at]), 0);
                    continue;
                }
                double angle = positions[row] / std::pow(100.0, (at % (size / 2)) / (size / 2.0));
                bool first = at < size / 2;
                double other = first ? -x(at + size / 2) : x(at - size / 2);
                double expected = x(at) * std::cos(angle) + other * std::sin(angle);
                double found = number(head < heads ? queries[(row * heads + head) * size + at] : keys[cached]);
                near(head < heads ? "query" : "cached key", found, expected, 6 * rounding<T>() * 4);
            }
        }
    emulator::launch(ROWS * kv_heads, THREADS, [&] {
        attend(queries.data(), keys.data(), values.data(), positions.data(), places.data(), kv_heads, group, size,
               attended.data());
    });
    for (int row = 0; row < ROWS; row++)
        for (long long head = 0; head < heads; head++) {
            std::vector<double> shares;
            double sum = 0, scale = 1 / std::sqrt((double)size);
            auto cached = [&](long long at) { return ((slots[row] * POSITIONS + at) * kv_heads + head / group) * size; };
            for (long long at = 0; at <= positions[row]; at++) {
                double score = 0;
                for (long long index = 0; index < size; index++)
                    score += (double)number(queries[(row * heads + head) * size + index]) * number(keys[cached(at) + index]);
                shares.push_back(std::exp(score * scale));
                sum += shares.back();
            }
            for (long long index = 0; index < size; index++) {
                double expected = 0;
                for (long long at = 0; at <= positions[row]; at++)
                    expected += shares[at] / sum * number(values[cached(at) + index]);
                near("attention", number(attended[(row * heads + head) * size + index]), expected, 2 * rounding<T>());
            }
        }
}

// A token that is nearly certain keeps the digits of its log-probability, which is never positive.
static void check_certain_tokens() {
    for (float most : {23.7f, 30.0f, 100.0f})
        for (float scale : {1.0f, 1.0f / 0.7f}) {
            std::vector<float> logits(400, most - 20.0f / scale), numbers(3);
            logits[7] = most;
            std::vector<long long> targets = {7};
            emulator::launch(1, THREADS, [&] { log_probs(logits.data(), 400, scale, targets.data(), numbers.data()); });
            double expected = Exact(logits.data(), 400, scale).shares[7];
            near("certain token", numbers[0], std::log(expected), 1.5e-7);
            near("positive log-probability", std::max(numbers[0], 0.0f), 0, 0);
            targets[0] = 400;
            emulator::launch(1, THREADS, [&] { log_probs(logits.data(), 400, scale, targets.data(), numbers.data()); });
            near("unknown target is a number", std::isnan(numbers[0]), 1, 0);
        }
}

static void check_squares() {
    auto numbers = drawn<float>(3001, 2);
    double sum = 1, expected = 1;
    for (float x : numbers)
        expected += (double)x * x;
    for (unsigned blocks : {1, 3})
        emulator::launch(blocks, THREADS, [&] { squares(numbers.data(), numbers.size(), &sum); });
    near("sum of squares", sum, 2 * expected - 1, 1e-9 * expected);
}

static void check_adamw() {
    const long long COUNT = 700;
    auto parameters = drawn<float>(COUNT, 2), gradients = drawn<float>(COUNT, 2), means = drawn<float>(COUNT, 1);
    auto squares = drawn<float>(COUNT, 1);
    for (float &square : squares)
        square = std::fabs(square);
    auto before = parameters, mean_before = means, square_before = squares;
    // Step 3 with a learning rate of 0.01, decay 0.1, and gradients halved by clipping.
    double rate = 0.01 / (1 - std::pow(0.9, 3)), deviation = std::sqrt(1 - std::pow(0.95, 3));
    emulator::launch((COUNT + THREADS - 1) / THREADS, THREADS, [&] {
        adamw(parameters.data(), gradients.data(), means.data(), squares.data(), COUNT, 0.5f, 0.1f, 0.05f, 1e-8f, 0.999f,
              rate, deviation);
    });
    for (long long at = 0; at < COUNT; at++) {
        double gradient = 0.5 * gradients[at], mean = 0.9 * mean_before[at] + 0.1 * gradient;
        double square = 0.95 * square_before[at] + 0.05 * gradient * gradient;
        double corrected = mean / (1 - std::pow(0.9, 3)), root = std::sqrt(square / (1 - std::pow(0.95, 3)));
        near("mean", means[at], mean, 1e-6);
        near("square", squares[at], square, 1e-6);
        near("parameter", parameters[at], before[at] * 0.999 - 0.01 * corrected / (root + 1e-8), 1e-5);
    }
}

template <typename T> static void check_all() {
    // Rows that begin at any address, and rows of whole chunks; one longer than a block's share.
    for (long long size : {37, 512, 9001, 9600}) {
        check_softmax<T>(size, 20, 1.0f);
        check_softmax<T>(size, 4, 0.7f);
        check_sampling<T>(size, 4);
        check_sampling<T>(size, 40);
    }
    for (long long width : {96, 896})
        check_layer<T>(width);
    check_attention<T>(2, 7, 64, false);
    check_attention<T>(2, 2, 32, true);
    check_attention<T>(1, 16, 128, true);
    check_attention<T>(3, 1, 24, false);
}

int main() {
    check_all<float>();
    check_all<bfloat16>();
    check_certain_tokens();
    check_squares();
    check_adamw();
    printf("%d failures\n", failures);
    return failures > 0;
}
