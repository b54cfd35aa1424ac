package endpoint

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/agentarbor/arbor/internal/plainjson"
)

// Violation is one broken rule. Param is the position in the body, such as messages[2].tool_calls[0].id.
type Violation struct{ Param, Message string }

func (v Violation) String() string {
	if v.Param == "" {
		return v.Message
	}
	return v.Param + ": " + v.Message
}

// CheckError contains the violations of a request body, between 1 and 50.
type CheckError struct {
	Violations []Violation
	protocol   string
}

func (e *CheckError) Error() string {
	all := make([]string, len(e.Violations))
	for i, v := range e.Violations {
		all[i] = v.String()
	}
	return "the request breaks the " + e.protocol + ": " + strings.Join(all, "; ")
}

// CheckBody returns the rules of the chat-completions protocol that the body of a request breaks, as a *[CheckError];
// nil if it breaks none. The rules are those of both OpenAI's and DeepSeek's endpoints: neither refuses the form of a
// body that passes. See https://platform.openai.com/docs/api-reference/chat/create and
// https://api-docs.deepseek.com/api/create-chat-completion.
func CheckBody(body []byte) error { return checkBody(body, rules().chat, "chat-completions protocol") }

// CheckResponses returns the rules of OpenAI's Responses API that the body of a request breaks, as a *[CheckError]; nil
// if it breaks none. It only accepts requests that store nothing at the endpoint: it refuses references to stored
// responses or items. See https://platform.openai.com/docs/api-reference/responses/create.
func CheckResponses(body []byte) error { return checkBody(body, rules().responses, "Responses API") }

// maxLevels is the maximal number of levels of a body, which a program of ours never needs.
const maxLevels = 200

func checkBody(body []byte, schema *jsonschema.Schema, protocol string) error {
	var c checker
	doc, err := plainjson.Strict(body, maxLevels)
	if err != nil {
		c.addf("", "the body is not JSON: %v", err)
		return &CheckError{c.found, protocol}
	}
	var invalid *jsonschema.ValidationError
	if errors.As(schema.Validate(doc), &invalid) {
		c.violations(doc, invalid)
		slices.SortFunc(c.found, func(a, b Violation) int { return strings.Compare(a.String(), b.String()) })
		c.found = slices.Compact(c.found)
	}
	var w wireRequest
	if err := json.Unmarshal(body, &w); err != nil && c.found == nil {
		c.addf("", "%v", err)
	}
	c.tools(&w)
	c.order(w.steps(), w.Input == nil)
	if c.found == nil {
		return nil
	}
	return &CheckError{c.found[:min(len(c.found), maxViolations)], protocol}
}

// maxViolations is the maximal number of violations in an error.
const maxViolations = 50

type checker struct{ found []Violation }

func (c *checker) addf(param, format string, args ...any) {
	c.found = append(c.found, Violation{param, fmt.Sprintf(format, args...)})
}

// ruleBook has the rules that each part of a body follows by itself. The other rules are in order.go and tools.go.
type ruleBook struct {
	text            any // of the schemas
	chat, responses *jsonschema.Schema
}

//go:embed rules.json
var rulesText []byte

const rulesURL = "mem:///rules.json"

var rules = sync.OnceValue(func() (r ruleBook) {
	r.text, _ = jsonschema.UnmarshalJSON(bytes.NewReader(rulesText)) // a test reads it
	c := jsonschema.NewCompiler()
	c.AssertContent()
	c.AssertFormat()
	c.RegisterFormat(&jsonschema.Format{Name: "json-object", Validate: jsonObject})
	_ = c.AddResource(rulesURL, r.text) // it is the only one
	r.chat, r.responses = c.MustCompile(rulesURL+"#/$defs/chat"), c.MustCompile(rulesURL+"#/$defs/responses")
	return r
})

func jsonObject(v any) error {
	text, ok := v.(string)
	if raw := strings.TrimSpace(text); ok && (!strings.HasPrefix(raw, "{") || !json.Valid([]byte(raw))) {
		return errors.New("the text is not a JSON object")
	}
	return nil
}

// violations adds the violations of a schema by a body. The description of a schema is the message of its own.
func (c *checker) violations(body any, e *jsonschema.ValidationError) {
	at, value := place(body, e.InstanceLocation)
	_, rule := place(rules().text, steps(e.SchemaURL))
	fields, _ := rule.(map[string]any)
	said, _ := fields["description"].(string)
	english := message.NewPrinter(language.English)
	switch k := e.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
		for _, cause := range e.Causes {
			c.violations(body, cause)
		}
		return
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			c.addf(join(at, name), "unknown field")
		}
		return
	case *kind.DependentRequired:
		c.addf(join(at, k.Prop), "is allowed only when %s are given", strings.Join(k.Missing, " and "))
		return
	case *kind.Required:
		if said == "" {
			for _, name := range k.Missing {
				c.addf(join(at, name), "is missing")
			}
			return
		}
	case *kind.Type:
		said = cmp.Or(said, k.LocalizedString(english))
		value = nil // the message says what it is
	}
	said = cmp.Or(said, e.ErrorKind.LocalizedString(english))
	switch value := value.(type) {
	case string:
		said += fmt.Sprintf(", not %.60q", value)
	case json.Number:
		said += ", not " + value.String()
	}
	c.addf(at, "%s", said)
}

// steps returns the steps of the JSON pointer in the address of a schema.
func steps(address string) []string {
	_, pointer, _ := strings.Cut(address, "#/")
	all := strings.Split(pointer, "/")
	for i, step := range all {
		step, _ = url.PathUnescape(step) // the library has escaped it
		all[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
	}
	return all
}

// place returns a position in a JSON document as people write it, and the value there.
func place(doc any, steps []string) (at string, value any) {
	for _, step := range steps {
		switch v := doc.(type) {
		case []any:
			i, _ := strconv.Atoi(step)
			at, doc = fmt.Sprintf("%s[%d]", at, i), v[i]
		case map[string]any:
			at, doc = join(at, step), v[step]
		}
	}
	return at, doc
}

func join(param, field string) string {
	if param == "" {
		return field
	}
	return param + "." + field
}
