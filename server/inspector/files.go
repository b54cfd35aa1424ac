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

// built is the page with its fonts and their licences, built by web/inspector.
//
//go:embed dist
var built embed.FS

// versionDigits is the number of digits of a file's hash in its address in index.html.
const versionDigits = 12

// typeOf has the content types by the extensions of names, because the table of the operating system differs from
// machine to machine. Text is served compressed; pictures and fonts are compressed already.
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

// file is a file of the page, ready to be served.
type file struct {
	typ    string
	hash   string // of the content, hexadecimal
	data   []byte
	packed []byte // the content compressed with gzip; nil if it is not shorter, or was not compressed
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
func (h *Handler) look(name string) *file {
	if h.packed != nil {
		return h.packed[name]
	}
	if !fs.ValidPath(name) || name == "." || strings.HasPrefix(name, ".") || strings.Contains(name, "/.") {
		return nil
	}
	data, err := fs.ReadFile(h.files, name)
	if err != nil {
		return nil
	}
	return newFile(name, data)
}

// allow refuses a browser that must not get the page.
func (h *Handler) allow(c *front.Call) error {
	if h.signIn == nil {
		return nil
	}
	return h.signIn.Allow(c.R)
}

// file serves a file. At any other address a browser gets the page, which has addresses for its screens.
func (h *Handler) file(c *front.Call) error {
	if err := h.allow(c); err != nil {
		return err
	}
	name := c.R.PathValue("path")
	f := h.look(name)
	if f == nil && (name == "" || strings.Contains(c.R.Header.Get("Accept"), "text/html")) {
		f = h.look("index.html")
	}
	if f == nil {
		return front.NotFound()
	}
	f.serve(c.W, c.R)
	return nil
}

// serve answers a request for the file. Browsers ask each time whether it has changed, except at the address with the
// hash of this content.
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

// takesGzip reports whether the header Accept-Encoding allows gzip.
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
