package agentfile

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/yamldoc"
)

func compiled(t *testing.T, text []byte) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("mem:///schema.json", doc))
	return must.Get(c.Compile("mem:///schema.json"))
}

// TestSchema holds the schemas against the files of all examples and tests: they refuse nothing that
// is read without a problem.
func TestSchema(t *testing.T) {
	agent, router := compiled(t, Schema()), compiled(t, RouterSchema())
	accepted, refused := 0, 0
	see := func(name, file string, data []byte) {
		r, s, text := &report{given: func(string) string { return name }}, agent, ""
		switch d := (*definition)(nil); {
		case filepath.Ext(file) == ".md":
			if d = parse(r, file, data); d == nil {
				return
			}
			text, _, _, _, _ = split(data)
		case filepath.Ext(file) == ".yaml" && bytes.Contains(data, []byte("kind: Router")):
			parseRouter(r, file, data)
			s, text = router, string(data)
		default:
			return
		}
		var d yamldoc.Decoder
		for _, doc := range d.Documents([]byte(text), maxFile) {
			if invalid := s.Validate(d.Any(doc)); invalid != nil {
				require.Error(t, r.err(), "%s is read, but: %v", name, invalid)
				refused++
			} else {
				accepted++
			}
		}
	}
	for _, folder := range []string{"../examples", "../cli", "../docs"} {
		require.NoError(t, filepath.WalkDir(folder, func(path string, f fs.DirEntry, err error) error {
			if err != nil || f.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			see(path, filepath.Base(path), data)
			return err
		}))
	}
	archives := must.Get(filepath.Glob("testdata/*.txtar"))
	for _, name := range archives {
		archive, err := txtar.ParseFile(name)
		require.NoError(t, err)
		for _, f := range archive.Files {
			see(name+" "+f.Name, f.Name, f.Data)
		}
	}
	require.Greater(t, accepted, 150)
	require.Greater(t, refused, 30)
}

// TestSchemaKeys: a key that is not known is refused in every mapping.
func TestSchemaKeys(t *testing.T) {
	for name, table := range map[string]struct {
		schema []byte
		keys   []yamldoc.Key
	}{
		"agent":  {Schema(), keys(newParser(&report{}, &definition{router: &routerKeys{}}))},
		"router": {RouterSchema(), routerFile(newParser(&report{}, &definition{file: "router.yaml", router: &routerKeys{}}))},
	} {
		s, seen := compiled(t, table.schema), 0
		var walk func(path string, keys []yamldoc.Key, within func(any) any)
		walk = func(path string, keys []yamldoc.Key, within func(any) any) {
			require.NoError(t, s.Validate(within(map[string]any{})), path)
			require.Error(t, s.Validate(within(map[string]any{"tols": 1})), path)
			seen++
			for _, k := range keys {
				if len(k.Keys) == 0 {
					continue
				}
				walk(path+"."+k.Name, k.Keys, func(v any) any {
					if k.Type == "a list of mappings" {
						v = []any{v}
					}
					return within(map[string]any{k.Name: v})
				})
			}
		}
		walk(name, table.keys, func(v any) any { return v })
		require.Greater(t, seen, 10, name)
	}
}
