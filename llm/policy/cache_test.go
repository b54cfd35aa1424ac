package policy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/policy"
	"github.com/agentarbor/arbor/llm/scripted"
)

func TestCacheOverHTTP(t *testing.T) {
	both(t, func(t *testing.T, stream bool) {
		a, asked := served(t, "a", scripted.Reply(scripted.Text("one ", "two"), scripted.Call("f", `{"n": 1}`), scripted.Usage(7, 3, 0)), text("other"))
		c, err := policy.NewCache(10, time.Hour)
		require.NoError(t, err)
		m := c.Wrap(a)
		first := ask(t.Context(), m, hello(stream))
		require.NoError(t, first.err)
		again := ask(t.Context(), m, hello(!stream))
		require.Equal(t, []string{"cached"}, again.notices)
		require.Equal(t, llm.Usage{CachedTokens: 7}, again.usage, "it costs nothing, and is known")
		again.notices, again.usage = nil, first.usage
		require.Equal(t, first, again)
		require.EqualValues(t, 1, asked.Load())
		req := hello(stream)
		req.System = "The user's PIN is 1234."
		require.Equal(t, "other", ask(t.Context(), m, req).text)
	})
}

// TestCacheKeepsOnlyWholeAnswers: nothing that failed, was cut, cancelled, left or withheld.
func TestCacheKeepsOnlyWholeAnswers(t *testing.T) {
	for name, bad := range map[string]scripted.Answer{
		"cut": scripted.Reply(scripted.Text("ha"), scripted.Cut()), "failed": scripted.Reply(scripted.Text("ha"), scripted.Status(500, 0)),
		"length": scripted.Reply(scripted.Text("ha"), scripted.Finish(llm.FinishLength)), "withheld": scripted.Reply(scripted.Finish(llm.FinishContentFilter)),
	} {
		t.Run(name, func(t *testing.T) {
			c, err := policy.NewCache(10, time.Hour)
			require.NoError(t, err)
			m := c.Wrap(scripted.New().Add("a", bad, text("whole")).Model("a"))
			ask(t.Context(), m, hello(true))
			require.Equal(t, "whole", ask(t.Context(), m, hello(true)).text)
		})
	}
	c, err := policy.NewCache(10, time.Hour)
	require.NoError(t, err)
	m := c.Wrap(scripted.New().Add("a", text("left"), text("whole")).Model("a"))
	for range m.Generate(t.Context(), hello(true)) {
		break
	}
	require.Equal(t, "whole", ask(t.Context(), m, hello(true)).text)
}

// TestCacheIsBounded: in number and time, the least recently used going first.
func TestCacheIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := policy.NewCache(2, time.Hour)
		require.NoError(t, err)
		n := 0
		m := c.Wrap(scripted.Func("a", func(*llm.Request) scripted.Answer { n++; return text(fmt.Sprint(n)) }))
		get := func(words string) string {
			return ask(t.Context(), m, &llm.Request{Messages: []llm.Message{llm.UserText(words)}}).text
		}
		require.Equal(t, []string{"1", "2", "1", "3", "1", "4"}, []string{get("x"), get("y"), get("x"), get("z"), get("x"), get("y")})
		time.Sleep(time.Hour + 1)
		require.Equal(t, "5", get("x"))
	})
}

// TestCachePartition: what belongs to one tenant is not found by another.
func TestCachePartition(t *testing.T) {
	type tenant struct{}
	c, err := policy.NewCache(10, time.Hour, policy.Partition(func(ctx context.Context) string { s, _ := ctx.Value(tenant{}).(string); return s }))
	require.NoError(t, err)
	m := c.Wrap(scripted.New().Add("a", text("1"), text("2")).Model("a"))
	one, two := context.WithValue(t.Context(), tenant{}, "one"), context.WithValue(t.Context(), tenant{}, "two")
	require.Equal(t, []string{"1", "2", "1"}, []string{ask(one, m, hello(true)).text, ask(two, m, hello(true)).text, ask(one, m, hello(true)).text})
}

// TestCacheTellsRequestsApart: whatever field of a request differs, the answer is another,
// except in those that do not reach the model's words.
func TestCacheTellsRequestsApart(t *testing.T) {
	full := func() *llm.Request {
		n, m, yes := 0.5, 0.5, true
		return &llm.Request{System: "s", Agent: "a/b", Messages: []llm.Message{
			llm.UserParts(llm.TextPart{Text: "t"}, llm.Media{Kind: llm.MediaImage, MediaType: "image/png", Data: []byte{1, 2}, Name: "n"}),
			{Role: llm.RoleAssistant, Content: llm.Content{Text: "w", Parts: []llm.Part{llm.Reasoning{Text: "r"}, llm.ToolCall{ID: "i", Name: "f", Arguments: "{}"}}}},
			{Role: llm.RoleTool, Content: llm.Content{Parts: []llm.Part{llm.ToolResult{CallID: "i", Name: "f", Output: "o"}}}}},
			Tools: []llm.ToolSpec{{Name: "f", Description: "d", Parameters: json.RawMessage(`{}`), Aliases: []string{"g"}}},
			Settings: llm.Settings{Temperature: &n, TopP: &m, ParallelToolCalls: &yes, MaxTokens: 1, Stop: []string{"x"}, ToolChoice: "f", TopLogProbs: 1,
				ResponseFormat: &llm.ResponseFormat{Name: "n", Schema: json.RawMessage(`{}`)}, LeakedCalls: llm.LeakedCallsOff}}
	}
	c, err := policy.NewCache(1000, time.Hour)
	require.NoError(t, err)
	asked := 0
	m := c.Wrap(scripted.Func("a", func(*llm.Request) scripted.Answer { asked++; return text("x") }))
	ask(t.Context(), m, full())
	ask(t.Context(), m, full())
	require.Equal(t, 1, asked)

	changed := 0
	for i := 0; ; i++ {
		req, at := full(), i
		path := change(reflect.ValueOf(req).Elem(), &at, "")
		if path == "" {
			break
		}
		before := asked
		ask(t.Context(), m, req)
		if path == ".Stream" || path == ".Once" {
			require.Equal(t, before, asked, path)
			continue
		}
		require.Equal(t, before+1, asked, path)
		changed++
	}
	require.Greater(t, changed, 40)
	sent := asked
	ask(t.Context(), m, &llm.Request{Messages: []llm.Message{llm.UserText("ab"), llm.UserText("c")}})
	ask(t.Context(), m, &llm.Request{Messages: []llm.Message{llm.UserText("a"), llm.UserText("bc")}})
	require.Equal(t, sent+2, asked)
}

// change changes the n-th value in v, and returns where that is, "" if there are fewer.
func change(v reflect.Value, n *int, path string) string {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			if *n--; *n < 0 {
				v.Set(reflect.New(v.Type().Elem()))
				return path
			}
			return ""
		}
		return change(v.Elem(), n, path)
	case reflect.Interface:
		c := reflect.New(v.Elem().Type()).Elem()
		c.Set(v.Elem())
		where := change(c, n, path)
		v.Set(c)
		return where
	case reflect.Struct:
		for i := range v.NumField() {
			if where := change(v.Field(i), n, path+"."+v.Type().Field(i).Name); where != "" {
				return where
			}
		}
		return ""
	case reflect.Slice:
		for i := range v.Len() {
			if where := change(v.Index(i), n, fmt.Sprintf("%s[%d]", path, i)); where != "" {
				return where
			}
		}
		if *n--; *n < 0 {
			v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
			return path + "[]"
		}
		return ""
	}
	if *n--; *n >= 0 {
		return ""
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Float64:
		v.SetFloat(v.Float() + 1)
	case reflect.Uint8:
		v.SetUint(v.Uint() + 1)
	default:
		v.SetInt(v.Int() + 1)
	}
	return path
}
