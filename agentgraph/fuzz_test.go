package agentgraph

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/internal/oddbytes"
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
