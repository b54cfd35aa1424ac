package offline_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/offline"
)

func compile(t testing.TB, schema string) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	require.NoError(t, c.AddResource("mem:///s.json", doc))
	s, err := c.Compile("mem:///s.json")
	require.NoError(t, err)
	return s
}

func requireValid(t testing.TB, schema, data string) {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(data)))
	require.NoError(t, err, data)
	require.NoError(t, compile(t, schema).Validate(v), data)
}

func TestArguments(t *testing.T) {
	object := func(required, properties string) string {
		return fmt.Sprintf(`{"type":"object","properties":{%s},"required":[%s],"additionalProperties":false}`, properties, required)
	}
	for _, c := range []struct{ name, schema, text, want string }{
		{"no parameters", ``, "look", `{}`},
		{"free text", object(`"query"`, `"query":{"type":"string"}`), "look for a red bicycle", `{"query":"look for a red bicycle"}`},
		{"quoted", object(`"query"`, `"query":{"type":"string"}`), `look for "red bicycle" now`, `{"query":"red bicycle"}`},
		{"quoted, guillemets", object(`"query"`, `"query":{"type":"string"}`), `look for «vélo rouge»`, `{"query":"vélo rouge"}`},
		{"no HTML escapes lost", object(`"query"`, `"query":{"type":"string"}`), `look for <b> & "a<b"`, "{\"query\":\"a\\u003cb\"}"},
		{"e-mail", object(`"email"`, `"email":{"type":"string","format":"email"}`), "look up ada@example.org, please", `{"email":"ada@example.org"}`},
		{"e-mail by its name", object(`"emailAddress"`, `"emailAddress":{"type":"string"}`), "look up (ada@example.org)", `{"emailAddress":"ada@example.org"}`},
		{"date", object(`"from"`, `"from":{"type":"string","format":"date"}`), "look since 2026-10-01.", `{"from":"2026-10-01"}`},
		{"two dates in order", object(`"from","to"`, `"to":{"type":"string","format":"date"},"from":{"type":"string","format":"date"}`), "look 2026-10-01 2026-11-01", `{"from":"2026-10-01","to":"2026-11-01"}`},
		{"no such date", object(`"from"`, `"from":{"type":"string","format":"date"}`), "look since 2026-13-01.", "from"},
		{"id", object(`"order_id"`, `"order_id":{"type":"string"}`), "Look at ABC-123!", `{"order_id":"ABC-123"}`},
		{"id behind its name", object(`"order_id"`, `"order_id":{"type":"string"}`), "look: customer C-7, order ABC-123", `{"order_id":"ABC-123"}`},
		{"free string behind its name", object(`"order"`, `"order":{"type":"string"}`), "look at my order ABC-123", `{"order":"ABC-123"}`},
		{"no id", object(`"order_id"`, `"order_id":{"type":"string"}`), "look at one of my orders", "order_id"},
		{"no id as a number", object(`"order_id"`, `"order_id":{"type":"integer"}`), "look at one of my orders", "order_id"},
		{"name", object(`"customer"`, `"customer":{"type":"string"}`), "Look for what Grace Hopper, our friend, bought", `{"customer":"Grace Hopper"}`},
		{"city", object(`"city"`, `"city":{"type":"string"}`), "How does it look in Zürich?", `{"city":"Zürich"}`},
		{"integer", object(`"amount"`, `"amount":{"type":"integer"}`), "look at 12 of ABC-99", `{"amount":12}`},
		{"number", object(`"price"`, `"price":{"type":"number"}`), "look below €19.50.", `{"price":19.50}`},
		{"number in words", object(`"guests"`, `"guests":{"type":"integer"}`), "look for a table for Seven", `{"guests":7}`},
		{"bounds", object(`"guests"`, `"guests":{"type":"integer","maximum":10}`), "look for 40 or 4", `{"guests":4}`},
		{"no integer", object(`"guests"`, `"guests":{"type":"integer"}`), "look for 1.5", "guests"},
		{"boolean", object(`"urgent"`, `"urgent":{"type":"boolean"}`), "look, it is urgent", `{"urgent":true}`},
		{"boolean, negated", object(`"urgent"`, `"urgent":{"type":"boolean"}`), "look, it is not urgent", `{"urgent":false}`},
		{"no boolean", object(`"urgent"`, `"urgent":{"type":"boolean"}`), "look", "urgent"},
		{"enum", object(`"color"`, `"color":{"enum":["red","dark_green"]}`), "look for something green", `{"color":"dark_green"}`},
		{"enum by its description", object(`"level"`, `"level":{"enum":["low","high"],"description":"low: can wait. high: an outage"}`), "look, an outage", `{"level":"high"}`},
		{"no value of the enum", object(`"color"`, `"color":{"enum":["red","green"]}`), "look for something blue", "color"},
		{"default", object(`"color"`, `"color":{"enum":["red","green"],"default":"green"}`), "look", `{"color":"green"}`},
		{"array of numbers", object(`"ids"`, `"ids":{"type":"array","items":{"type":"integer"}}`), "look at 3, 5 and 8", `{"ids":[3,5,8]}`},
		{"array of an enum", object(`"days"`, `"days":{"type":"array","items":{"enum":["monday","friday","sunday"]}}`), "look on Sunday and Monday", `{"days":["monday","sunday"]}`},
		{"array of texts", object(`"tags"`, `"tags":{"type":"array","items":{"type":"string"}}`), "look for \"a b\" and \"c\"", `{"tags":["a b","c"]}`},
		{"nested", object(`"filter"`, `"filter":{"type":"object","properties":{"email":{"type":"string"},"limit":{"type":"integer"}},"required":["email"]}`),
			"look at ada@example.org, limit 5", `{"filter":{"email":"ada@example.org","limit":5}}`},
		{"nullable", object(`"note","id"`, `"note":{"type":["integer","null"]},"id":{"anyOf":[{"type":"null"},{"type":"integer"}]}`), "look at 5", `{"id":null,"note":5}`},
		{"reference", `{"type":"object","properties":{"c":{"$ref":"#/$defs/color"}},"required":["c"],"$defs":{"color":{"enum":["red","green"]}}}`, "look for green", `{"c":"green"}`},
		{"optional ones only if named", object(`"query"`, `"query":{"type":"string"},"limit":{"type":"integer"},"deep":{"type":"boolean"},"note":{"type":"string"}`), "look for 40 things", `{"query":"look for 40 things"}`},
		{"optional ones that are named", object(``, `"limit":{"type":"integer"},"deep":{"type":"boolean"},"email":{"type":"string"}`), "look deep with limit 40 for a@b.cc", `{"deep":true,"email":"a@b.cc","limit":40}`},
		{"several are missing", object(`"email","order_id"`, `"email":{"type":"string"},"order_id":{"type":"string"}`), "look", "email and order_id"},
		{"foreign reference", `{"$ref":"file:///etc/hostname"}`, "look", "values that its schema allows"},
		{"no schema", `{"type":7}`, "look", "values that its schema allows"},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := &llm.Request{Messages: []llm.Message{user(c.text)}, Tools: []llm.ToolSpec{tool("look", "Looks.", c.schema)}}
			got, _ := answer(t, req)
			if !strings.HasPrefix(c.want, "{") {
				require.Equal(t, "To call look I need "+c.want+": please give that in your next message.", got)
				return
			}
			require.Equal(t, "look "+c.want, got)
			if c.schema != "" {
				requireValid(t, c.schema, c.want)
			}
		})
	}
}

func TestToolChoice(t *testing.T) {
	number := `{"type":"object","properties":{"n":{"type":"integer","minimum":3}},"required":["n"]}`
	req := func(choice llm.ToolChoice, text string, tools ...llm.ToolSpec) *llm.Request {
		return &llm.Request{Messages: []llm.Message{user(text)}, Tools: tools, Settings: llm.Settings{ToolChoice: choice}}
	}
	count, drop, hand := tool("count", "Counts sheep.", number), tool("drop_sheep", "Drops sheep.", ""), transfer("shepherd: Sheep and goats", "vet: Ill animals")
	for _, c := range []struct {
		name string
		req  *llm.Request
		want string
	}{
		{"none", req(llm.ToolChoiceNone, "count 4 sheep", count, hand), about},
		{"required", req(llm.ToolChoiceRequired, "hello", count, hand), `transfer_to_agent {"agent_name":"shepherd","reason":""}`},
		{"required, after a result", func() *llm.Request {
			r := req(llm.ToolChoiceRequired, "count 4 sheep", count)
			r.Messages = append(r.Messages, result("count", "4", false))
			return r
		}(), `count {"n":4}`},
		{"required, arguments invented", req(llm.ToolChoiceRequired, "hello", count), `count {"n":10}`},
		{"named", req("drop_sheep", "count 4 sheep", count, drop, hand), `drop_sheep {}`},
		{"named transfer", req("transfer_to_agent", "the animal is ill", count, hand), `transfer_to_agent {"agent_name":"vet","reason":"animal, ill"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, _ := answer(t, c.req)
			require.True(t, strings.HasPrefix(got, c.want), got)
		})
	}
	for _, bad := range []*llm.Request{req(llm.ToolChoiceRequired, "hello"), req("other", "hello", count)} {
		for _, err := range offline.New().Generate(context.Background(), bad) {
			var e *llm.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, llm.CodeBadRequest, e.Code)
		}
	}
}

func TestResponseFormat(t *testing.T) {
	for _, c := range []struct{ name, schema, text, want string }{
		{"classification", `{"type":"object","properties":{"category":{"enum":["billing","tech"],"description":"billing: money and invoices\ntech: network and computers"},"urgent":{"type":"boolean"}},"required":["category","urgent"],"additionalProperties":false}`,
			"My network is down", `{"category":"tech","urgent":false}`},
		{"nothing in the text", `{"type":"object","properties":{"category":{"enum":["billing","tech"]},"n":{"type":"integer"},"note":{"type":["string","null"]}},"required":["category","n","note"]}`,
			"", `{"category":"billing","n":0,"note":null}`},
		{"the text itself", `{"type":"object","properties":{"answer":{"type":"string"}},"required":["answer"]}`, "Hello", `{"answer":"Hello"}`},
		{"too long a text", `{"type":"object","properties":{"answer":{"type":"string","maxLength":3}},"required":["answer"]}`, "Hello", `{"answer":""}`},
		{"formats", `{"type":"object","properties":{"a":{"type":"string","format":"date"},"b":{"type":"string","format":"email"},"c":{"type":"string","format":"uuid"}},"required":["a","b","c"]}`,
			"Hello", `{"a":"1970-01-01","b":"nobody@example.invalid","c":"00000000-0000-0000-0000-000000000000"}`},
		{"bounds", `{"type":"object","properties":{"a":{"type":"integer","minimum":50},"b":{"type":"string","minLength":5},"c":{"type":"array","items":{"enum":["x","y"]},"minItems":2,"uniqueItems":true}},"required":["a","b","c"]}`,
			"", `{"a":100,"b":"1970-01-01","c":["x","y"]}`},
		{"recursive", `{"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"v":{"type":"integer"},"next":{"anyOf":[{"$ref":"#/$defs/n"},{"type":"null"}]}},"required":["v"]}}}`, "", `{"v":0}`},
		{"alternatives", `{"oneOf":[{"type":"object","properties":{"kind":{"const":"a"},"n":{"type":"integer"}},"required":["kind","n"]},{"type":"string"}]}`, "5", `{"kind":"a","n":5}`},
		{"any JSON", ``, "Hello", `{}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := &llm.Request{Messages: []llm.Message{user(c.text)}, Settings: llm.Settings{ResponseFormat: &llm.ResponseFormat{Name: "r", Schema: json.RawMessage(c.schema)}}}
			got, last := answer(t, req)
			require.Equal(t, llm.FinishStop, last.Finish)
			require.JSONEq(t, c.want, got)
			if c.schema != "" {
				requireValid(t, c.schema, got)
			}
		})
	}
	t.Run("with tool results", func(t *testing.T) {
		req := &llm.Request{Messages: []llm.Message{user("How many?"), result("count", `{"sheep":4}`, false)},
			Settings: llm.Settings{ResponseFormat: &llm.ResponseFormat{Schema: json.RawMessage(`{"type":"object","properties":{"sheep":{"type":"integer"},"text":{"type":"string"}},"required":["sheep","text"]}`)}}}
		got, _ := answer(t, req)
		require.JSONEq(t, `{"sheep":4,"text":"count returned sheep 4."}`, got)
	})
	t.Run("impossible", func(t *testing.T) {
		req := &llm.Request{Messages: []llm.Message{user("x")}, Settings: llm.Settings{ResponseFormat: &llm.ResponseFormat{Schema: json.RawMessage(`{"not":{}}`)}}}
		for _, err := range offline.New().Generate(context.Background(), req) {
			var e *llm.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, llm.CodeBadRequest, e.Code)
		}
	})
}

// A schema must not make the model read files.
func TestForeignReference(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.json")
	require.NoError(t, os.WriteFile(path, []byte(`{"const":"secret"}`), 0o600))
	req := &llm.Request{Messages: []llm.Message{user("x")}, Settings: llm.Settings{ResponseFormat: &llm.ResponseFormat{Schema: json.RawMessage(`{"$ref":"file://` + path + `"}`)}}}
	for c, err := range offline.New().Generate(context.Background(), req) {
		require.Error(t, err)
		require.NotContains(t, c.Text, "secret")
	}
}
