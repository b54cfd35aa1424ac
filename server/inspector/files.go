package inspector

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/agentarbor/arbor/server/internal/front"
)

// built is the page with its fonts and their licences. What builds it is in web/inspector.
//
//go:embed dist
var built embed.FS

// versionDigits is how much of a file's hash stands in its address, as index.html has it.
const versionDigits = 12

// typeOf is of the files of pages alone: what machines make of the ends of names differs. Text of
// those that are to be packed gets shorter by that; pictures and fonts are packed as they are.
func typeOf(name string) (typ string, pack bool) {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8", true
	case ".js":
		return "text/javascript; charset=utf-8", true
	case ".css":
		return "text/css; charset=utf-8", true
	case ".txt":
		return "text/plain; charset=utf-8", true
	case ".json":
		return "application/json", true
	case ".svg":
		return "image/svg+xml", true
	case ".png":
		return "image/png", false
	case ".woff2":
		return "font/woff2", false
	}
	return "application/octet-stream", false
}

// file is a file as it is served.
type file struct {
	typ    string
	hash   string // of the content, hexadecimal
	data   []byte
	packed []byte // by gzip; nil if that gains nothing, or was not done
}

func newFile(name string, data []byte) *file {
	sum := sha256.Sum256(data)
	typ, _ := typeOf(name)
	return &file{typ: typ, hash: hex.EncodeToString(sum[:16]), data: data}
}

// pack compresses all files of a page.
func pack(fsys fs.FS) (map[string]*file, error) {
	all := make(map[string]*file)
	return all, fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		f := newFile(name, data)
		all[name] = f
		if _, gains := typeOf(name); !gains {
			return nil
		}
		var out bytes.Buffer
		z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
		if err == nil {
			_, err = z.Write(data)
		}
		if err == nil {
			err = z.Close()
		}
		if out.Len() < len(data) {
			f.packed = out.Bytes()
		}
		return err
	})
}

// look returns a file of the page, or nil for a missing or hidden one.
func (d *Door) look(name string) *file {
	if d.packed != nil {
		return d.packed[name]
	}
	if !fs.ValidPath(name) || name == "." || strings.HasPrefix(name, ".") || strings.Contains(name, "/.") {
		return nil
	}
	data, err := fs.ReadFile(d.files, name)
	if err != nil {
		return nil
	}
	return newFile(name, data)
}

// allow refuses a browser to which the page must not go.
func (d *Door) allow(c *front.Call) error {
	if d.signIn == nil {
		return nil
	}
	return d.signIn.Allow(c.R)
}

// file serves a file. The page has addresses of its own: where a browser goes to one that is no
// file, it gets the page.
func (d *Door) file(c *front.Call) error {
	if err := d.allow(c); err != nil {
		return err
	}
	name := c.R.PathValue("path")
	f := d.look(name)
	if f == nil && (name == "" || strings.Contains(c.R.Header.Get("Accept"), "text/html")) {
		f = d.look("index.html")
	}
	if f == nil {
		return front.NotFound()
	}
	f.serve(c.W, c.R)
	return nil
}

// serve answers a request for the file. Browsers ask each time whether it has changed, but for the
// address that holds the hash of just this content.
func (f *file) serve(w http.ResponseWriter, r *http.Request) {
	h, data, tag := w.Header(), f.data, f.hash
	h.Set("Content-Type", f.typ)
	if f.packed != nil {
		h.Set("Vary", "Accept-Encoding")
		if takesGzip(r.Header.Values("Accept-Encoding")) {
			h.Set("Content-Encoding", "gzip")
			data, tag = f.packed, tag+"-gzip"
		}
	}
	h.Set("ETag", `"`+tag+`"`)
	h.Set("Cache-Control", "no-cache")
	if r.URL.Query().Get("v") == f.hash[:versionDigits] {
		h.Set("Cache-Control", "max-age=31536000, immutable")
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}

// takesGzip reports whether the header Accept-Encoding names gzip, and not to forbid it.
func takesGzip(headers []string) bool {
	for coding := range strings.SplitSeq(strings.Join(headers, ","), ",") {
		name, params, _ := strings.Cut(coding, ";")
		if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
			continue
		}
		_, q, weighed := strings.Cut(strings.ReplaceAll(params, " ", ""), "q=")
		return !weighed || strings.Trim(q, "0.") != ""
	}
	return false
}
