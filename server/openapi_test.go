package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/peerfolder"
	"github.com/agentarbor/arbor/llm/offline"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/server"
)

// TestJoinedAddresses: clients join an address that ends in a slash and a path that begins with one.
func TestJoinedAddresses(t *testing.T) {
	at := func(name string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, name, r.URL.EscapedPath()) })
	}
	h := server.Mux(server.At("/v1", at("api ")), server.At("", at("rest ")))
	for path, want := range map[string]string{"//v1/a": "api /v1/a", "/v1///a//": "api /v1/a/", "//v1/a%2F%2Fb": "api /v1/a%2F%2Fb", "//v10": "rest /v10", "/v1//..": "api /v1/.."} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost"+path, http.NoBody))
		require.Equal(t, want, w.Body.String(), path)
	}
}

// openAPI is the document, for those who hold answers against it.
type openAPI struct {
	doc      map[string]any
	mu       sync.Mutex
	compiler *jsonschema.Compiler
	compiled map[string]*jsonschema.Schema
	paths    []apiPath
}

type apiPath struct {
	template string
	matches  *regexp.Regexp
	item     map[string]any
}

// theDocument is read once for all tests.
var theDocument = sync.OnceValue(func() *openAPI {
	data, err := os.ReadFile("openapi.json")
	if err != nil {
		panic(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		panic(err)
	}
	o := &openAPI{doc: doc.(map[string]any), compiler: jsonschema.NewCompiler(), compiled: make(map[string]*jsonschema.Schema)}
	o.compiler.AssertFormat()
	if err := o.compiler.AddResource("api.json", doc); err != nil {
		panic(err)
	}
	for template, item := range o.doc["paths"].(map[string]any) {
		prefix := "/api/v1"
		if _, root := item.(map[string]any)["servers"]; root {
			prefix = ""
		}
		pattern := regexp.MustCompile(`\\\{[^}]*\\\}`).ReplaceAllString(regexp.QuoteMeta(template), `[^/]+`)
		o.paths = append(o.paths, apiPath{template, regexp.MustCompile("^" + prefix + pattern + "$"), item.(map[string]any)})
	}
	slices.SortFunc(o.paths, func(a, b apiPath) int { return strings.Compare(a.template, b.template) }) // what has no parameter counts first
	return o
})

// schema compiles what is at a place of the document.
func (o *openAPI) schema(place string) (*jsonschema.Schema, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s := o.compiled[place]; s != nil {
		return s, nil
	}
	s, err := o.compiler.Compile("api.json#" + place)
	if err == nil {
		o.compiled[place] = s
	}
	return s, err
}

func pointer(names ...string) string {
	place := ""
	for _, n := range names {
		place += "/" + url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(n))
	}
	return place
}

// check reports in what a value differs from a schema of the document.
func (o *openAPI) check(data []byte, place ...string) error {
	s, err := o.schema(pointer(place...))
	if err != nil {
		return err
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	return s.Validate(v)
}

// answer checks an answer to a request: the path, the method, the status, the media type and the
// body must be in the document. It returns the body.
func (o *openAPI) answer(res *http.Response) error {
	req := res.Request
	i := slices.IndexFunc(o.paths, func(p apiPath) bool { return p.matches.MatchString(req.URL.EscapedPath()) })
	place := []string{"components", "responses", "Problem"}
	response := o.doc["components"].(map[string]any)["responses"].(map[string]any)["Problem"].(map[string]any)
	method := strings.ToLower(req.Method)
	if i >= 0 && o.paths[i].item[method] != nil {
		responses := o.paths[i].item[method].(map[string]any)["responses"].(map[string]any)
		status := fmt.Sprint(res.StatusCode)
		found, ok := responses[status].(map[string]any)
		if !ok {
			return fmt.Errorf("%s %s answers %s, of which the document knows nothing", method, o.paths[i].template, status)
		}
		if _, refers := found["$ref"]; !refers {
			response, place = found, []string{"paths", o.paths[i].template, method, "responses", status}
		}
	} else if res.StatusCode < 400 {
		return fmt.Errorf("%s %s is no operation of the document", method, req.URL.Path)
	}
	content, _ := response["content"].(map[string]any)
	typ, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
	if content == nil {
		if typ != "" {
			return fmt.Errorf("there should be no body of the type %s", typ)
		}
		return nil
	}
	if content["*/*"] != nil || typ == "text/event-stream" && content[typ] != nil {
		return nil // bytes, or frames, which are checked one by one
	}
	if content[typ] == nil {
		return fmt.Errorf("%s %s answers %d with %q", method, req.URL.Path, res.StatusCode, typ)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	res.Body.Close()
	res.Body = io.NopCloser(bytes.NewReader(body))
	if typ == "application/x-ndjson" {
		for line := range bytes.Lines(body) {
			if err := o.check(line, "components", "schemas", "Event"); err != nil {
				return err
			}
		}
		return nil
	}
	return o.check(body, append(place, "content", typ, "schema")...)
}

// checkedTransport holds each answer against the document.
type checkedTransport struct {
	t    testing.TB
	base http.RoundTripper
}

func (c checkedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := c.base.RoundTrip(r)
	if err != nil || r.Method == http.MethodHead || r.Method == http.MethodOptions {
		return res, err
	}
	if err := theDocument().answer(res); err != nil {
		c.t.Errorf("%s %s: status %d: %v", r.Method, r.URL, res.StatusCode, err)
	}
	return res, nil
}

// The routes are those of the document, all of them and no others.
func TestOpenAPIIsTheRoutes(t *testing.T) {
	s := newServed(t, server.WithWorkshop(bodies(server.Body{})))
	var routes, described []string
	for _, r := range s.handler.Routes() {
		routes = append(routes, fmt.Sprintf("%s %s open=%v", r.Method, r.Path, r.Open))
	}
	for template, item := range theDocument().doc["paths"].(map[string]any) {
		for method, op := range item.(map[string]any) {
			if method == "servers" || strings.HasSuffix(template, "z") {
				continue
			}
			security, open := op.(map[string]any)["security"].([]any)
			described = append(described, fmt.Sprintf("%s %s open=%v", strings.ToUpper(method), template, open && len(security) == 0))
		}
	}
	require.ElementsMatch(t, described, routes)
	res := s.get(t, "ann", "/openapi.json")
	var served map[string]any
	require.NoError(t, json.Unmarshal(res.body, &served))
	require.Equal(t, "Arbor", served["info"].(map[string]any)["title"])
}

// Each parameter of a path is described, and those that are described are in the path.
func TestOpenAPIParameters(t *testing.T) {
	o := theDocument()
	for template, item := range o.doc["paths"].(map[string]any) {
		var want []string
		for _, m := range regexp.MustCompile(`\{([^}]*)\}`).FindAllStringSubmatch(template, -1) {
			want = append(want, m[1])
		}
		for method, op := range item.(map[string]any) {
			if method == "servers" {
				continue
			}
			var got []string
			params, _ := op.(map[string]any)["parameters"].([]any)
			for _, p := range params {
				name := p.(map[string]any)["$ref"].(string)
				name = name[strings.LastIndexByte(name, '/')+1:]
				param := o.doc["components"].(map[string]any)["parameters"].(map[string]any)[name].(map[string]any)
				if param["in"] == "path" {
					got = append(got, param["name"].(string))
				}
			}
			require.ElementsMatch(t, want, got, "%s %s", method, template)
		}
	}
}

// The document is a good one by the rules of a linter that others wrote.
func TestOpenAPILint(t *testing.T) {
	peer := peerfolder.Folder{Path: "testdata/peer", Name: "server/testdata/peer", Of: "OpenAPI", Probe: "@redocly/cli"}
	node, script := peer.Node(t, "node_modules", "@redocly", "cli", "bin", "cli.js")
	cmd := exec.CommandContext(t.Context(), node, script, "lint", "--config", "testdata/peer/redocly.yaml", "openapi.json")
	cmd.Env = append(os.Environ(), "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "valid")
}

// TestOpenAPIRequests sends requests that a generator makes of the document: what fits it is not a bad request, what does
// not is refused, and each answer is as the document says. What follows a session has no end, and is left out.
func TestOpenAPIRequests(t *testing.T) {
	peer := peerfolder.Folder{Path: "testdata/peer", Name: "server/testdata/peer", Of: "OpenAPI"}
	python, config := peer.Python(t, "schemathesis.toml")
	config = must.Get(filepath.Abs(config))
	python = must.Get(filepath.Abs(python))
	model := offline.New()
	billing := must.Get(llmagent.New("billing", "You handle refunds.", model, llmagent.WithDescription("Refunds, being charged twice")))
	root := must.Get(llmagent.New("support", "Route to the right specialist.", model, llmagent.WithSubAgents(billing)))
	web := httptest.NewServer(server.Mux(everyAPI(t, newTurns(t, root), tokens{})...))
	t.Cleanup(web.Close)
	cmd := exec.CommandContext(t.Context(), filepath.Join(filepath.Dir(python), "schemathesis"), "--config-file", config, "--no-color", "run", web.URL+"/api/v1/openapi.json",
		"-H", "Authorization: Bearer owner", "--seed", "1", "--max-examples", "20", "--generation-database", "none", "--request-timeout", "300",
		"--exclude-path-regex", "events$|changes", "--phases", "examples,coverage,fuzzing", "--continue-on-failure")
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	var selected, total int
	i := max(0, strings.Index(string(out), " selected /"))
	_, err = fmt.Sscanf(strings.Join(strings.Fields(string(out)[max(0, i-3):min(len(out), i+60)]), " "), "%d selected / %d total", &selected, &total)
	require.NoError(t, err, string(out))
	require.Equal(t, 3, total-selected, "what follows something is left out")
	require.Contains(t, string(out), fmt.Sprint("Tested: ", selected))
}
