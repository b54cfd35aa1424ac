package openai

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
)

func TestNew(t *testing.T) {
	m, err := New("gpt-x")
	require.NoError(t, err)
	require.Equal(t, "gpt-x", m.Name())
	require.Equal(t, "api.openai.com/v1/chat/completions", m.endpoint().where)
	require.Equal(t, "other", m.Named("other").Name())
	require.Same(t, m.endpoint(), m.Named("other").endpoint())

	cases := map[string]struct {
		model string
		opts  []Option
		want  []string
	}{
		"no model":   {" ", nil, []string{"the model's name is empty"}},
		"no scheme":  {"m", []Option{WithBaseURL("localhost:8080/v1")}, []string{"must begin with http:// or https://"}},
		"no host":    {"m", []Option{WithBaseURL("http:///v1")}, []string{"names no host"}},
		"bad url":    {"m", []Option{WithBaseURL("http://user:" + testKey + "@[::1/v1")}, []string{"cannot be parsed"}},
		"key":        {"m", []Option{WithAPIKey(testKey + "\n" + testKey)}, []string{"the API key contains a space, a line break"}},
		"header":     {"m", []Option{WithHeader("X-A", testKey+"\nb")}, []string{"the header X-A contains a line break"}},
		"everything": {"m", []Option{WithRetries(-1), WithRetryDelay(2, 1), WithMaxAnswerBytes(0), WithLogger(nil)}, []string{"retries", "delay", "size limit", "logger"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			m, err := New(c.model, c.opts...)
			require.Nil(t, m)
			for _, want := range c.want {
				require.ErrorContains(t, err, want)
			}
			require.NotContains(t, err.Error(), testKey)
		})
	}
}

func TestFromEnv(t *testing.T) {
	const key, base, model = "OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL"
	cases := map[string]struct {
		env      map[string]string
		fallback string
		want     string // name at endpoint
		err      string
	}{
		"all":              {map[string]string{key: "k", base: "http://x:1/v1", model: "a"}, "b", "a at x:1/v1/chat/completions", ""},
		"spaces":           {map[string]string{key: "k\n", base: " http://x:1/v1\n", model: "a "}, "", "a at x:1/v1/chat/completions", ""},
		"no key":           {map[string]string{base: "http://x/v1", model: "a"}, "", "a at x/v1/chat/completions", ""},
		"no url":           {map[string]string{key: "k", model: "a"}, "", "a at api.openai.com/v1/chat/completions", ""},
		"fallback":         {map[string]string{key: "k"}, "b", "b at api.openai.com/v1/chat/completions", ""},
		"key, no model":    {map[string]string{key: testKey}, "", "", "OPENAI_API_KEY is set, but no model is named: set OPENAI_MODEL"},
		"url, no model":    {map[string]string{base: "http://x", key: testKey}, "", "", "OPENAI_BASE_URL is set, but no model is named: set OPENAI_MODEL"},
		"model alone":      {map[string]string{model: "a"}, "", "", "neither OPENAI_API_KEY nor OPENAI_BASE_URL"},
		"bad url":          {map[string]string{base: "x/v1", model: "a", key: testKey}, "", "", "must begin with http"},
		"responses":        {map[string]string{base: "http://x/v1/responses", model: "a", "OPENAI_API": "responses"}, "", "a at x/v1/responses", ""},
		"chat":             {map[string]string{base: "http://x/v1/responses", model: "a", "OPENAI_API": "chat"}, "", "a at x/v1/chat/completions", ""},
		"another api":      {map[string]string{base: "http://x/v1", model: "a", "OPENAI_API": "gemini"}, "", "", "must be chat or responses"},
		"spaces are empty": {map[string]string{key: " "}, "b", "", "are not set"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			m, err := FromEnv(func(name string) string { return c.env[name] }, c.fallback)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				require.NotContains(t, err.Error(), testKey)
				require.Nil(t, m)
				return
			}
			require.NoError(t, err)
			require.Equal(t, "openai.Model("+c.want+")", m.String())
			require.Equal(t, strings.TrimSpace(c.env[key]), m.endpoint().key)
		})
	}
	_, err := FromEnv(func(string) string { return "" }, "b")
	require.ErrorIs(t, err, ErrNoEndpoint)

	m, err := FromEnv(func(name string) string { return map[string]string{key: "x", base: "x", model: "x"}[name] }, "", WithBaseURL("http://y/v1"))
	require.NoError(t, err)
	require.Equal(t, "y/v1/chat/completions", m.endpoint().where, "options count more")
}

func TestFromEnvOr(t *testing.T) {
	instead := scripted.Always("instead", scripted.Reply())
	m, err := FromEnvOr(func(string) string { return "" }, instead)
	require.NoError(t, err)
	require.Equal(t, instead, m)
	m, err = FromEnvOr(func(string) string { return "http://x/v1" }, instead)
	require.ErrorContains(t, err, "OPENAI_API is")
	require.Nil(t, m)
	m, err = FromEnvOr(func(name string) string {
		return map[string]string{"OPENAI_BASE_URL": "http://x/v1", "OPENAI_MODEL": "m"}[name]
	}, instead)
	require.NoError(t, err)
	require.Equal(t, "m", m.Name())
}

// No way of printing a model may show what it knows.
func TestModelPrintsWithoutSecrets(t *testing.T) {
	m, err := New("m", WithAPIKey(testKey), WithBaseURL("https://user:hunter22@x.example/v1?sig=topsecret"), WithHeader("X-Api-Key", "headersecret"))
	require.NoError(t, err)
	type holder struct {
		m llm.Model
		v Model
		p *Model
	}
	var log strings.Builder
	logger := slog.New(slog.NewJSONHandler(&log, nil))
	logger.Info("x", "model", m, "value", *m, "holder", holder{m, *m, m})
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "model", m, "value", *m, "holder", holder{m, *m, m})
	out := log.String()
	for _, v := range []any{m, *m, holder{m, *m, m}, &holder{m, *m, m}, []*Model{m}, map[string]Model{"a": *m}, Model{}} {
		for _, f := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			out += fmt.Sprintf(f, v)
		}
		j, err := json.Marshal(v)
		require.NoError(t, err)
		out += string(j)
	}
	for _, secret := range []string{testKey, "hunter22", "topsecret", "headersecret"} {
		require.NotContains(t, out, secret)
		require.NotContains(t, out, fmt.Sprintf("%x", secret))
	}
	require.Contains(t, out, "openai.Model(m at x.example/v1/chat/completions)")
	require.Contains(t, out, `"model":{"model":"m","endpoint":"x.example/v1/chat/completions"}`)
}

// An endpoint that echoes secrets, in any form, anywhere, is edited.
func TestEchoedSecretsAreRemoved(t *testing.T) {
	const key = `sk-"<odd>&/key'+=`
	forms := []string{key, url.QueryEscape(key), url.PathEscape(key), `sk-\"<odd>&/key'+=`, "sk-&#34;&lt;odd&gt;&amp;/key&#39;+="}
	bodies := map[string]func(string) http.HandlerFunc{
		"status": func(s string) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(401)
				_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": "bad key " + s + " and hunter22", "code": s}})
			}
		},
		"text": func(s string) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(400)
				_, _ = io.WriteString(w, repeat(" ", 1150)+s+" topsecret headersecret tokensecret")
			}
		},
		"page": func(s string) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, "<html><title>"+s+"</title>")
			}
		},
		"garbage":  func(s string) http.HandlerFunc { return jsonOf("data: {" + s + "\n\n") },
		"redirect": func(s string) http.HandlerFunc { return redirectTo("http://x/" + url.PathEscape(s)) },
		"object": func(s string) http.HandlerFunc {
			b, _ := json.Marshal(s)
			return bodyOf(`data: {"error":{"message":` + string(b) + `}}` + "\n\n")
		},
	}
	for name, body := range bodies {
		t.Run(name, func(t *testing.T) {
			for _, form := range forms {
				if name == "redirect" {
					form = key
				}
				m := serve(t, body(form))
				m, err := New("m", WithRetries(0), WithAPIKey(key), WithHeader("X-Api-Key", "headersecret"), WithHeader("Proxy-Authorization", "Bearer tokensecret"),
					WithBaseURL("http://user:hunter22@"+strings.TrimSuffix(m.endpoint().where, "/chat/completions")+"?sig=topsecret"))
				require.NoError(t, err)
				_, err = ask(t, m, helloS)
				require.Error(t, err)
				for _, secret := range append(forms, "odd", "hunter22", "topsecret", "headersecret", "tokensecret") {
					require.NotContains(t, fmt.Sprintf("%v %#v", err, err), secret)
				}
			}
		})
	}
}

func redirectTo(url string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, url, http.StatusTemporaryRedirect) }
}

// A redirect must not carry the key or the conversation to another host.
func TestRedirectsAreNotFollowed(t *testing.T) {
	elsewhere := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("followed") })
	m := serve(t, redirectTo("http://"+elsewhere.endpoint().where), WithHTTPClient(&http.Client{}))
	e := fails(t, m, hello)
	require.Equal(t, 307, e.Status)
	require.Contains(t, e.Message, "it redirects to "+elsewhere.endpoint().where)
}
