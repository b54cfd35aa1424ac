// Package tiktoken counts tokens exactly for the models of OpenAI whose encodings are public. It works offline: the
// vocabularies are compiled in.
//
// No other package of this module imports that module, so a program without this package does not contain the
// vocabularies. It counts only the text that it is given; [llm.CountRequest] adds the other tokens of a chat request.
package tiktoken

import (
	"fmt"
	"strings"
	"sync"

	"github.com/tiktoken-go/tokenizer"

	"github.com/agentarbor/arbor/llm"
)

// Encodings returns the names of the encodings, newest first. Counter accepts them instead of a model's name.
func Encodings() []string {
	return []string{"o200k_base", "cl100k_base", "p50k_base", "r50k_base"}
}

// families maps prefixes of models' names to their encoding. Of two matching prefixes the longer comes first. The
// source is the table of OpenAI's own tiktoken.
var families = []struct {
	prefix   string
	encoding tokenizer.Encoding
}{
	{"gpt-oss-", tokenizer.O200kBase}, // it adds special tokens only
	{"gpt-5", tokenizer.O200kBase},
	{"gpt-4.5", tokenizer.O200kBase},
	{"gpt-4.1", tokenizer.O200kBase},
	{"gpt-4o", tokenizer.O200kBase},
	{"chatgpt-4o", tokenizer.O200kBase},
	{"gpt-4", tokenizer.Cl100kBase},
	{"gpt-3.5", tokenizer.Cl100kBase},
	{"gpt-35", tokenizer.Cl100kBase}, // as Azure writes it
	{"o1", tokenizer.O200kBase},
	{"o3", tokenizer.O200kBase},
	{"o4", tokenizer.O200kBase},
	{"text-davinci-", tokenizer.P50kBase},
	{"davinci", tokenizer.R50kBase},
}

// Counter returns the exact counter for a model. The model may be fine-tuned (ft:…), have the name of a provider in
// front (openai/…), or be the name of an encoding. The error for any other name lists the encodings. The first call for
// an encoding builds its tables, which takes up to 0.1 s and 6 MB. The counter is safe for concurrent use. It counts
// the text of a special token as ordinary text.
func Counter(model string) (llm.TokenCounter, error) {
	encoding, ok := encodingOf(model)
	if !ok {
		return nil, fmt.Errorf("tiktoken: the encoding of the model %q is not known; name one of %s instead, or count with llm.EstimateTokens",
			model, strings.Join(Encodings(), ", "))
	}
	codec, err := codecs[encoding]()
	if err != nil {
		return nil, fmt.Errorf("tiktoken: %s: %w", encoding, err)
	}
	return func(text string) int {
		n, err := codec.Count(text)
		if err != nil { // its regular expression gave up on the text
			return llm.EstimateTokens(text)
		}
		return n
	}, nil
}

func encodingOf(model string) (tokenizer.Encoding, bool) {
	for _, name := range Encodings() {
		if model == name {
			return tokenizer.Encoding(name), true
		}
	}
	name := model[strings.LastIndexByte(model, '/')+1:]
	name = strings.TrimPrefix(name, "ft:")
	for _, f := range families {
		if strings.HasPrefix(name, f.prefix) {
			return f.encoding, true
		}
	}
	return "", false
}

// codecs are built on first use and shared, because they do not change.
var codecs = func() map[tokenizer.Encoding]func() (tokenizer.Codec, error) {
	m := make(map[tokenizer.Encoding]func() (tokenizer.Codec, error))
	for _, name := range Encodings() {
		m[tokenizer.Encoding(name)] = sync.OnceValues(func() (tokenizer.Codec, error) { return tokenizer.Get(tokenizer.Encoding(name)) })
	}
	return m
}()
