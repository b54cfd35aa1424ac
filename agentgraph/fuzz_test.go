package agentgraph

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/oddbytes"
)

// FuzzLoad: no panic comes out, there is a graph or there are problems, and every
// problem has a place that exists.
func FuzzLoad(f *testing.F) {
	files := must.Get(filepath.Glob("testdata/ossa/*.yaml"))
	for _, file := range files {
		data := must.Get(os.ReadFile(file))
		f.Add(data)
	}
	for _, c := range readCases[invalidCase](f, "testdata/invalid.yaml") {
		f.Add([]byte(c.Graph))
	}
	for _, c := range readCases[invalidCase](f, "testdata/exec.yaml") {
		f.Add([]byte(c.Graph))
	}
	for _, c := range readCases[arborCase](f, "testdata/invalid-arbor.yaml") {
		f.Add([]byte(c.Graph))
	}
	f.Add([]byte(arborGraph))
	f.Add([]byte(graphOf("graph: self.yaml", "graph: head.yaml", "graph: *a", "graph: &a {agents: [{id: i, graph: *a}], entrypoint: i}")))
	for _, s := range []string{"", "- - -\n", "{", "\"\\u", "a: !!", "&a *a", "%", "\t", "? a\n: b\n", "kind: &k AgentGraph\nmetadata: *k\nspec: {agents: &a [*a]}\n",
		"kind: AgentGraph\nspec: {agents: [{id: &x a, config: &c {d: *c}}], edges: [*x, {from: , to: !!x }]}\n", head + "---\nkind: Agent\nmetadata: {name: x}\n"} {
		f.Add([]byte(s))
	}
	for _, odd := range oddbytes.JSON() {
		f.Add([]byte(head + "spec: {agents: [{id: a, agentRef: x, config: " + odd + "}], entrypoint: a, edges: " + odd + "}\n"))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		files := mapFS(map[string]string{"self.yaml": string(data), "head.yaml": head, "top.yaml": graphOf("graph: self.yaml", "graph: head.yaml")})
		if _, err := Load([]byte(graphOf("graph: self.yaml")), WithFS(files, "top.yaml"), WithAnyRef()); err != nil && len(Problems(err)) == 0 {
			t.Fatalf("%T %v", err, err)
		}
		g, err := Load(data, WithRefs("x", "worker"), WithFS(files, "self.yaml"))
		if err == nil {
			if len(g.Nodes) == 0 || g.Entrypoint == "" || g.Name == "" {
				t.Fatalf("%+v", g)
			}
			return
		}
		var all *Error
		if !errors.As(err, &all) || len(all.Problems) == 0 || g != nil {
			t.Fatalf("%T %v", err, err)
		}
		lines := strings.Count(string(data), "\n") + 1
		for i, p := range all.Problems {
			if p.File == "self.yaml" || p.File == "" && p.Line > lines || p.Line < 1 || p.Message == "" || p.Code == "" || strings.Contains(p.Message, "\n") {
				t.Fatalf("%+v", p)
			}
			if strings.Contains(p.Message, "cannot be read as YAML") {
				t.Fatalf("a panic: %+v", p)
			}
			if utf8.Valid(data) && !utf8.ValidString(p.Message) {
				t.Fatalf("%q", p.Message)
			}
			if i > 0 && p.File == all.Problems[i-1].File && p.Line < all.Problems[i-1].Line {
				t.Fatal("not sorted")
			}
		}
	})
}

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc := must.Get(jsonschema.UnmarshalJSON(bytes.NewReader(Schema())))
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("mem:///agentgraph.json", doc))
	return must.Get(c.Compile("mem:///agentgraph.json"))
}

// structural are the messages about keys, types and patterns. Those of the codes
// below are always about them.
var (
	structural      = regexp.MustCompile(`must be a (text|list|mapping)|an? (agent|edge) must be|YAML reads|has no value|is empty|is missing|unknown key|not part of AgentGraph|has both|exactly one of|takes none|must be a (whole number|time|mapping)|only the word human|letters, digits|reducer must|atMax must|initial value for`)
	structuralCodes = map[Code]bool{CodeMissingField: true, CodeUnknownField: true, CodeBadVersion: true, CodeBadStrategy: true,
		CodeBadMaxRetries: true, CodeWrongAPIVersion: true, CodeWrongKind: true}
	// What a schema cannot see: values that have no place in JSON, keys that
	// repeat, and words that are too near to a key of an open mapping.
	// And which keys the state has.
	unseen = regexp.MustCompile(`repeated|no number that JSON has|did you mean "labels"|the state has no key`)
)

// TestSchema compares the schema with the parser: both refuse the same documents
// for their structure.
func TestSchema(t *testing.T) {
	s := compileSchema(t)
	files := map[string]string{}
	paths := must.Get(filepath.Glob("testdata/ossa/*.yaml"))
	for _, p := range paths {
		data := must.Get(os.ReadFile(p))
		files[p] = string(data)
	}
	for _, name := range []string{"testdata/invalid.yaml", "testdata/exec.yaml"} {
		for _, c := range readCases[invalidCase](t, name) {
			files[name+" "+c.Name] = c.Graph
		}
	}
	for _, c := range readCases[arborCase](t, "testdata/invalid-arbor.yaml") {
		files["arbor "+c.Name] = c.Graph
	}
	for name, c := range problemCases() {
		files[name] = c.file
		files[name+" as arbor/v1"] = strings.ReplaceAll(c.file, APIVersion, APIVersionArbor)
	}
	whole, _, _ := strings.Cut(arborGraph, "---")
	files["whole of arbor/v1"] = strings.Replace(whole, "total: 1\n", "total: '1'\n", 1)
	refused, taken := 0, 0
	for name, file := range files {
		r := newReader(nil, "", 0)
		read := r.documents([]byte(file))
		if read == nil || len(read.Documents) != 1 { // a schema is for one document
			continue
		}
		value := r.Any(read.Documents[0])
		bad := false
		_, err := Load([]byte(file), WithAnyRef())
		skip := false
		for _, p := range Problems(err) {
			switch {
			case unseen.MatchString(p.Message), regexp.MustCompile("anchor").MatchString(p.Message):
				skip = true
			case structuralCodes[p.Code], structural.MatchString(p.Message):
				bad = true
			}
		}
		if skip {
			continue
		}
		invalid := s.Validate(value)
		require.Equal(t, bad, invalid != nil, "%s\n%v\n%v", name, err, invalid)
		if bad {
			refused++
		} else {
			taken++
		}
	}
	require.Greater(t, refused, 50)
	require.Greater(t, taken, 30)
	t.Log(refused, taken)
}

// TestSchemaParts: what keys and tables say in JSON is JSON.
func TestSchemaParts(t *testing.T) {
	for _, table := range []table{agentTable, errorTable, arborAgentTable, stateTable} {
		require.True(t, json.Valid([]byte(table.rest)), table.rest)
	}
	require.NotContains(t, string(Schema()), "null,\n")
	require.NotContains(t, string(Schema()), "null\n")
}
