package tiktoken_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/tiktoken"
)

// TestKnownFigures compares with the figures that OpenAI publishes for these
// texts in its cookbook ("How to count tokens with tiktoken").
func TestKnownFigures(t *testing.T) {
	for text, want := range map[string]map[string]int{
		"antidisestablishmentarianism": {"r50k_base": 5, "p50k_base": 5, "cl100k_base": 6, "o200k_base": 6},
		"2 + 2 = 4":                    {"r50k_base": 5, "p50k_base": 5, "cl100k_base": 7, "o200k_base": 7},
		"お誕生日おめでとう":                    {"r50k_base": 14, "p50k_base": 14, "cl100k_base": 9, "o200k_base": 8},
		"tiktoken is great!":           {"cl100k_base": 6, "o200k_base": 6},
		"":                             {"r50k_base": 0, "o200k_base": 0},
	} {
		for encoding, n := range want {
			count, err := tiktoken.Counter(encoding)
			require.NoError(t, err)
			require.Equal(t, n, count(text), "%s of %q", encoding, text)
		}
	}
}

func TestModels(t *testing.T) {
	const birthday = "お誕生日おめでとう"
	for model, want := range map[string]int{
		"gpt-4o-mini": 8, "gpt-4.1": 8, "gpt-5-nano": 8, "gpt-5.1": 8, "o3-mini": 8, "o4-mini-2025-04-16": 8, "chatgpt-4o-latest": 8, "gpt-oss-120b": 8,
		"ft:gpt-4o-mini-2024-07-18:acme::abc": 8, "openai/gpt-4o": 8,
		"gpt-4": 9, "gpt-4-turbo": 9, "gpt-3.5-turbo-0125": 9, "gpt-35-turbo": 9, "ft:gpt-4-0613:acme": 9,
		"text-davinci-003": 14, "davinci": 14,
	} {
		count, err := tiktoken.Counter(model)
		require.NoError(t, err, model)
		require.Equal(t, want, count(birthday), model)
	}
	for _, model := range []string{"", "llama3.1", "mistral-large", "claude-sonnet-4", "gemini-2.5-pro", "my-gpt-4", "deepseek/deepseek-chat", "qwen2.5:7b"} {
		_, err := tiktoken.Counter(model)
		require.Error(t, err, model)
		for _, encoding := range tiktoken.Encodings() {
			require.ErrorContains(t, err, encoding)
		}
	}
}

func TestOddTexts(t *testing.T) {
	count, err := tiktoken.Counter("gpt-4o")
	require.NoError(t, err)
	require.Greater(t, count("<|endoftext|>"), 1, "no special tokens in what users write")
	require.NotZero(t, count("\xff\xfe broken"))
	require.NotZero(t, count(strings.Repeat("x", 1<<17)), "one long word")
	require.NotZero(t, count(strings.Repeat(" ", 1<<16)))
}

func TestAtOnce(t *testing.T) {
	count, err := tiktoken.Counter("gpt-4o")
	require.NoError(t, err)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			text := strings.Repeat(fmt.Sprintf("The %d. word of the text, 日本. ", i), 50)
			if n := count(text); n != count(text) {
				t.Errorf("%d tokens, and others at another time", n)
			}
		})
	}
	wg.Wait()
}

// TestTheEstimate says how far llm.EstimateTokens is off for ordinary texts.
func TestTheEstimate(t *testing.T) {
	count, err := tiktoken.Counter("gpt-4o")
	require.NoError(t, err)
	for name, text := range map[string]string{
		"prose": "I was charged twice for my subscription in March. Could you please look at the invoice and refund the second payment? My account is the one with the old address, and I would like to keep it.",
		"code":  "func (s *shown) add(m llm.Message, seq int64, turn bool) {\n\ts.addMark(s.measure(&m, mark{seq: seq, turn: turn}))\n\ts.msgs = append(s.msgs, m)\n}\n",
		"JSON":  `{"order":{"id":"A-1042","items":[{"sku":"x1","qty":2,"price":19.99},{"sku":"y2","qty":1,"price":5}]},"customer":"ann@example.com"}`,
	} {
		exact, estimate := float64(count(text)), float64(llm.EstimateTokens(text))
		require.InDelta(t, 1, estimate/exact, 0.2, "%s: %v tokens, estimated %v", name, exact, estimate)
	}
}

func ExampleCounter() {
	count, err := tiktoken.Counter("gpt-4o")
	if err != nil {
		fmt.Println(err)
		return
	}
	req := &llm.Request{System: "Be kind.", Messages: []llm.Message{llm.UserText("I was charged twice.")}}
	fmt.Println(count("I was charged twice."), llm.CountRequest(req, count))
	// Output: 5 19
}
