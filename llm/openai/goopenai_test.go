package openai

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	goopenai "github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"
)

// TestWhyNotTheClient shows what go-openai's client loses of answers and requests that this package handles. If one of
// these fails with a newer version, docs/dependencies.md is no longer right.
func TestWhyNotTheClient(t *testing.T) {
	var sent string
	stream := func(h http.HandlerFunc) (text string, failed error) {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			sent = string(body)
			h(w, r)
		}))
		defer s.Close()
		config := goopenai.DefaultConfig(testKey)
		config.BaseURL = s.URL + "/v1"
		answer, err := goopenai.NewClientWithConfig(config).CreateChatCompletionStream(context.Background(), goopenai.ChatCompletionRequest{
			Model: "m", Temperature: 0, Messages: []goopenai.ChatCompletionMessage{{Role: "user", Content: "Hi"}}})
		if err != nil {
			return "", err
		}
		defer answer.Close()
		for {
			chunk, err := answer.Recv()
			if err != nil {
				return text, err
			}
			for _, c := range chunk.Choices {
				text += c.Delta.Content
			}
		}
	}
	whole, done := stream(bodyOf(text("Hello.") + "data: [DONE]\n\n"))
	require.Equal(t, "Hello.", whole)
	require.NotContains(t, sent, "temperature", "zero is a temperature")
	half, cut := stream(bodyOf(text("Hello.")))
	require.Equal(t, []any{whole, done}, []any{half, cut}, "an answer that was cut off ends like a whole one")

	_, err := stream(bodyOf(strings.Repeat(": keep-alive\n\n", 200) + text("Hello.")))
	require.ErrorIs(t, err, goopenai.ErrTooManyEmptyStreamMessages)
	got, err := stream(jsonOf(`{"choices":[{"message":{"content":"Hello."},"finish_reason":"stop"}]}`))
	require.Equal(t, []any{"", io.EOF}, []any{got, err}, "an answer in one piece is lost")

	_, err = stream(status(429, `{"error":{"message":"slow down"}}`, "Retry-After", "7"))
	var reported *goopenai.APIError
	require.ErrorAs(t, err, &reported)
	require.NotContains(t, err.Error(), "7", "no error has the headers")
	_, err = stream(status(401, `{"error":{"message":"the key `+testKey+` is wrong"}}`))
	require.ErrorContains(t, err, testKey, "and an error may hold the key")
	require.False(t, errors.Is(err, io.EOF))
}
