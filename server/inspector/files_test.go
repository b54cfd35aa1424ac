package inspector

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"maps"
	"net/http/httptest"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
)

// fetch requests a file from a handler.
func fetch(d *Handler, address string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", "/inspect/"+address, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])[:versionDigits]
}

// Files are sent compressed to clients that accept that, and each form has its own ETag.
func TestPacked(t *testing.T) {
	d := must.Get(New())
	script := must.Get(fs.ReadFile(built, "dist/app.js"))
	plain := fetch(d, "app.js")
	require.Equal(t, 200, plain.Code)
	require.Equal(t, script, plain.Body.Bytes())
	require.Empty(t, plain.Header().Get("Content-Encoding"))
	for accept, packed := range map[string]bool{"gzip": true, "br, gzip;q=0.5": true, "GZIP ; q=1": true, "gzip;q=0": false, "gzip; q=0.00": false, "identity": false, "gzipped": false, "*;q=0": false} {
		got := fetch(d, "app.js", "Accept-Encoding", accept)
		require.Equal(t, 200, got.Code)
		require.Equal(t, "Accept-Encoding", got.Header().Get("Vary"))
		require.Equal(t, packed, got.Header().Get("Content-Encoding") == "gzip", accept)
		require.Equal(t, packed, got.Header().Get("ETag") != plain.Header().Get("ETag"), accept)
		if packed {
			require.Less(t, got.Body.Len(), len(script))
			require.Equal(t, script, must.Get(io.ReadAll(must.Get(gzip.NewReader(got.Body)))))
		}
		again := fetch(d, "app.js", "Accept-Encoding", accept, "If-None-Match", got.Header().Get("ETag"))
		require.Equal(t, 304, again.Code)
		require.Zero(t, again.Body.Len())
	}
	other := fetch(d, "app.js", "Accept-Encoding", "gzip", "If-None-Match", plain.Header().Get("ETag"))
	require.Equal(t, 200, other.Code, "who has the one form has not the other")
}

// Only the address with the hash of just this content is kept without asking again.
func TestImmutable(t *testing.T) {
	one := "console.log(1)"
	files := fstest.MapFS{"index.html": {Data: []byte("page")}, "app.js": {Data: []byte(one)}, "fonts/a.woff2": {Data: []byte("font")}}
	for _, d := range []*Handler{must.Get(New()), must.Get(New(WithFiles(files)))} {
		script := fetch(d, "app.js").Body.Bytes()
		const kept, asked = "max-age=31536000, immutable", "no-cache"
		for address, want := range map[string]string{"app.js?v=" + hashOf(script): kept, "app.js": asked, "app.js?v=": asked, "app.js?v=" + strings.Repeat("0", versionDigits): asked, "": asked, "s/x?v=" + hashOf(script): asked} {
			got := fetch(d, address, "Accept", "text/html")
			require.Equal(t, 200, got.Code, address)
			require.Equal(t, want, got.Header().Get("Cache-Control"), address)
		}
	}
	d := must.Get(New(WithFiles(files)))
	require.Equal(t, "font/woff2", fetch(d, "fonts/a.woff2").Header().Get("Content-Type"))
	require.Equal(t, 404, fetch(d, "fonts").Code)
	files["app.js"] = &fstest.MapFile{Data: []byte("console.log(2)")} // as a person who works on it does
	got := fetch(d, "app.js?v="+hashOf([]byte(one)), "Accept-Encoding", "gzip")
	require.Equal(t, "console.log(2)", got.Body.String())
	require.Equal(t, "no-cache", got.Header().Get("Cache-Control"))
}

// imports matches what a script loads before it runs: not import("…"), which comes when it is needed.
var imports = regexp.MustCompile(`(?:\bfrom|\bimport)\s*["']\./([^"']+)["']`)

// table matches the texts of a language. A browser loads at most one of them, so that they are no part of all script.
var table = regexp.MustCompile(`^[a-z]{2}\.js$`)

// sent is the compressed length of a file, in bytes.
func sent(f *file) int {
	if f.packed != nil {
		return len(f.packed)
	}
	return len(f.data)
}

// The page is small, and index.html names the files that are there.
func TestSizes(t *testing.T) {
	d := must.Get(New())
	all, scripts, languages := 0, 0, 0
	for name, f := range d.packed {
		all += len(f.data)
		switch {
		case table.MatchString(name):
			languages = max(languages, sent(f))
		case path.Ext(name) == ".js":
			scripts += sent(f)
		}
		require.NotEqual(t, "application/octet-stream", f.typ, "%s: files of this type are not served", name)
	}
	named := regexp.MustCompile(`(?:src|href)="/inspect/([^"?]+)(?:\?v=([^"]*))?"`).FindAllSubmatch(d.packed["index.html"].data, -1)
	loaded := map[string]bool{}
	var load func(name string)
	load = func(name string) {
		require.Contains(t, d.packed, name)
		if loaded[name] {
			return
		}
		loaded[name] = true
		if path.Ext(name) == ".js" {
			for _, m := range imports.FindAllSubmatch(d.packed[name].data, -1) {
				load(path.Join(path.Dir(name), string(m[1])))
			}
		}
	}
	for _, m := range named {
		name, version := string(m[1]), string(m[2])
		load(name)
		if name == "app.js" || name == "app.css" || version != "" {
			require.Equal(t, hashOf(d.packed[name].data), version, "index.html names another %s", name)
		}
	}
	initial := 0
	for name := range loaded {
		if path.Ext(name) == ".js" || path.Ext(name) == ".css" {
			initial += sent(d.packed[name])
		}
	}
	require.True(t, loaded["app.js"] && loaded["app.css"])
	require.False(t, slices.ContainsFunc(slices.Collect(maps.Keys(loaded)), table.MatchString), "a reader of English loads no table")
	t.Logf("initial load %d bytes, all script %d bytes and the largest language %d bytes, packed; all files %d bytes", initial, scripts, languages, all)
	require.LessOrEqual(t, initial, 85_000)
	require.LessOrEqual(t, scripts, 180_000)
	require.NotZero(t, languages)
	require.LessOrEqual(t, languages, 17_000)
	require.LessOrEqual(t, all, 700_000) // of the binary; each language but English adds 42,000
}
