package openai

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/llm"
)

// ErrNoEndpoint means that none of the environment variables of [FromEnv] is set. The caller can then use a model that
// needs no endpoint, as [FromEnvOr] does.
var ErrNoEndpoint = errors.New("openai: no endpoint is configured: OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL are not set")

// FromEnv returns the model that the environment describes: OPENAI_BASE_URL (default https://api.openai.com/v1),
// OPENAI_API_KEY and OPENAI_MODEL. It looks them up with getenv, usually os.Getenv. Some endpoints need no key: without
// one, no Authorization header is sent.
//
// OPENAI_API is chat, which is the default, or responses for [WithResponses].
//
// The fallback is the model's name if OPENAI_MODEL is empty; it may be empty. The options take precedence over the
// environment.
//
// If none of the three variables is set, the error is [ErrNoEndpoint]. A key or an address without a model, and a model
// without a key and an address, is an error that names the missing variable.
func FromEnv(getenv func(string) string, fallback string, opts ...Option) (*Model, error) {
	get := func(name string) string { return strings.TrimSpace(getenv(name)) }
	base, key, model := get("OPENAI_BASE_URL"), get("OPENAI_API_KEY"), get("OPENAI_MODEL")
	switch {
	case base == "" && key == "" && model == "":
		return nil, ErrNoEndpoint
	case base == "" && key == "":
		return nil, errors.New("openai: OPENAI_MODEL is set, but neither OPENAI_API_KEY nor OPENAI_BASE_URL is: " +
			"set the key of OpenAI, or the address of another endpoint")
	case model == "" && fallback == "":
		set := "OPENAI_BASE_URL"
		if base == "" {
			set = "OPENAI_API_KEY"
		}
		return nil, fmt.Errorf("openai: %s is set, but no model is named: set OPENAI_MODEL to one that the endpoint serves", set)
	case model == "":
		model = fallback
	}
	env := []Option{WithAPIKey(key)}
	switch api := get("OPENAI_API"); api {
	case "", "chat":
	case "responses":
		env = append(env, WithResponses())
	default:
		return nil, fmt.Errorf("openai: OPENAI_API is %q; it must be chat or responses", api)
	}
	if base != "" {
		env = append(env, WithBaseURL(base))
	}
	return New(model, slices.Concat(env, opts)...)
}

// FromEnvOr returns the model of [FromEnv], or instead if none of the three variables is set.
func FromEnvOr(getenv func(string) string, instead llm.Model, opts ...Option) (llm.Model, error) {
	m, err := FromEnv(getenv, "", opts...)
	switch {
	case errors.Is(err, ErrNoEndpoint):
		return instead, nil
	case err != nil:
		return nil, err
	}
	return m, nil
}
