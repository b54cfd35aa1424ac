package agentfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/tools/txtar"
)

// FuzzLoad loads folders that are made of a txtar archive: it never panics, ends
// in a tree or in problems, and every problem has a place that exists.
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
	f.Fuzz(func(t *testing.T, data []byte) {
		fsys, lines := fstest.MapFS{}, map[string]int{}
		for _, file := range txtar.Parse(data).Files {
			if _, seen := fsys[file.Name]; !seen {
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
