package agentfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/oddbytes"
)

// FuzzLoad loads folders that are made from a txtar archive: it never panics,
// ends in a tree or in problems, and every problem has a place that exists.
func FuzzLoad(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, front := range []string{"", "name: 'a\n b'\nx: y\n", "? a\n: b\n", "a: |\n  b\n", "- - -\n", "{", "\"\\u", "a: !!", "&a *a", "%", "\t"} {
		f.Add([]byte("-- a.md --\n---\n" + front + "---\nbody"))
	}
	for _, odd := range oddbytes.JSON() {
		f.Add([]byte("-- a.md --\n---\nname: a\ntools: " + odd + "\nmetadata: {a: " + odd + "}\n---\nbody"))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		fsys, lines := fstest.MapFS{}, map[string]int{}
		for _, file := range txtar.Parse(data).Files {
			if _, seen := fsys[file.Name]; !seen && file.Name != "." && fs.ValidPath(file.Name) {
				fsys[file.Name] = &fstest.MapFile{Data: file.Data}
				lines[file.Name] = strings.Count(string(file.Data), "\n") + 1
			}
		}
		tree, err := LoadFS(fsys, ".", WithModel(resolve))
		if err == nil {
			if tree.Index().Len() == 0 {
				t.Fatal("a tree without agents")
			}
			return
		}
		var problems *Error
		if !errors.As(err, &problems) || len(problems.Problems) == 0 {
			t.Fatalf("%T: %v", err, err)
		}
		for _, p := range problems.Problems {
			count, isFile := lines[p.File]
			switch {
			case p.Message == "" || strings.Contains(p.Message, "\n"):
				t.Fatalf("message %q", p.Message)
			case isFile && (p.Line < 1 || p.Line > count || p.Col < 0):
				t.Fatalf("%s: there are %d lines", p, count)
			case !isFile && p.Line != 0:
				t.Fatalf("%s: there is no such file", p)
			}
		}
	})
}

// FuzzFrontMatter parses one front matter, which reaches further into YAML.
func FuzzFrontMatter(f *testing.F) {
	for _, front := range []string{"name: 'a\n b'\nx: y\n", "? a\n: b\n", "d: |\n  b\ntools:\n  - x\n  - \n", "{a: [1, 2], b: \"\\u00e9\"}",
		"transfer: {parent: true, peers: no}\nhistory: {last_turns: 6}\nsettings:\n  stop: [a]\n  top_p: .5\n", "a: >-\n\n  x\n\n y: z\n", "a: &b c\n<<: *b\n",
		"a2a: https://x.example\nauth:\n  bearer: $T\n  api_key: {header: k, value: $K}\n  oauth2: {token_url: $U, client_id: c, client_secret: $S, scopes: [a]}\n  origins: [https://y.example]\n"} {
		f.Add(front)
	}
	f.Fuzz(func(t *testing.T, front string) {
		text := "---\n" + front + "\n---\nbody"
		r := &report{given: func(file string) string { return file }}
		d := parse(r, "a.md", []byte(text))
		if d == nil {
			t.Fatal("an agent without definition")
		}
		if d.broken && len(r.problems) == 0 {
			t.Fatal("broken, but without a problem")
		}
		for _, p := range r.problems {
			if p.Line < 1 || p.Line > strings.Count(text, "\n")+1 || p.Col < 0 || strings.Contains(p.Message, "\n") {
				t.Fatalf("%+v", p)
			}
		}
	})
}

// FuzzRouter reads a router in YAML beside two agents: it never panics, and every
// problem is on a line that exists.
func FuzzRouter(f *testing.F) {
	files := must.Get(filepath.Glob("testdata/router*.txtar"))
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		require.NoError(f, err)
		for _, file := range archive.Files {
			if isYAML(file.Name) {
				f.Add(string(file.Data))
			}
		}
	}
	f.Add("kind: Router\ndefault: a\nrules: [{when: {not: {not: {state: {key: k, equals: {x: [1, null]}}}}}, to: human}]\nspecialists: [{agent: a, onError: a}]\n")
	f.Fuzz(func(t *testing.T, text string) {
		fsys := mapFS(map[string]string{"front.yaml": text, "a.md": "---\n---\n", "b.md": "---\nrules: []\ndefault: human\n---\n"})
		tree, err := LoadFS(fsys, "front.yaml", WithModel(resolve), WithoutCredentials())
		if err == nil {
			require.NotZero(t, tree.Index().Len())
			return
		}
		var problems *Error
		require.ErrorAs(t, err, &problems)
		for _, p := range problems.Problems {
			require.NotContains(t, p.Message, "\n")
			if p.File == "front.yaml" && p.Line > strings.Count(text, "\n")+1 {
				t.Fatalf("%s: there are fewer lines", p)
			}
		}
	})
}
