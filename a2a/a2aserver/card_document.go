package a2aserver

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/agentarbor/arbor/a2a/internal/wire"
	"github.com/agentarbor/arbor/agent"
)

// cardCache says for how long a client need not ask again (A2A 1.0, section 8.6).
// After that, an unchanged card costs an answer without a body.
const cardCache = "public, max-age=300"

// cardDocument is a card as it is sent. It is immutable.
type cardDocument struct {
	tree     *agent.Tree // that it describes
	body     []byte
	etag     string // strong, of the body
	modified time.Time
}

func newCardDocument(body []byte, modified time.Time) *cardDocument {
	sum := sha256.Sum256(body)
	return &cardDocument{nil, body, `"` + base64.RawURLEncoding.EncodeToString(sum[:]) + `"`, modified}
}

// ServeHTTP answers GET and HEAD, the only methods that come here, with 304 to whoever has the document already.
// The card is public, so that pages of any origin may read it, without cookies.
func (d *cardDocument) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Expose-Headers", "ETag")
	h.Set("Cache-Control", cardCache)
	h.Set("Content-Type", "application/json")
	h.Set("ETag", d.etag)
	h.Set("X-Content-Type-Options", "nosniff")
	http.ServeContent(w, r, "", d.modified, bytes.NewReader(d.body))
}

// cardDocuments has the cards of a server by tenant. They are made when they are first asked for, and each time if the
// server does not know its public URL: then they name the host that is asked for them.
type cardDocuments struct {
	base     string                          // "" takes that of the request
	tree     func(tenant string) *agent.Tree // of a tenant that exists, as it is now
	render   func(tenant, base string) ([]byte, error)
	modified time.Time
	log      *slog.Logger

	mu   sync.Mutex
	docs map[string]*cardDocument
}

// newCardDocuments takes what makes the card of a tenant's tree for a base URL, and the
// public base URL if there is one. Without it, the card names the host of each
// request, which a stranger may have chosen: a card like this must not be signed.
func newCardDocuments(base string, tree func(tenant string) *agent.Tree, render func(tenant, base string) ([]byte, error), log *slog.Logger) *cardDocuments {
	return &cardDocuments{
		base: strings.TrimSuffix(base, "/"), tree: tree, render: render, modified: time.Now(), log: log,
		docs: make(map[string]*cardDocument),
	}
}

// serve answers with the card of a tenant that exists.
func (c *cardDocuments) serve(w http.ResponseWriter, r *http.Request, tenant string) {
	base, err := c.base, error(nil)
	if base == "" {
		if base, err = wire.RequestBase(r); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	d, err := c.get(tenant, base)
	if err != nil {
		c.log.Error("the agent card cannot be made", "tenant", tenant, "error", err)
		http.Error(w, "the agent card cannot be made", http.StatusInternalServerError)
		return
	}
	d.ServeHTTP(w, r)
}

func (c *cardDocuments) get(tenant, base string) (*cardDocument, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, tree := c.docs[tenant], c.tree(tenant)
	switch {
	case before == nil:
	case before.tree != tree:
		c.modified = time.Now()
	case c.base != "":
		return before, nil
	}
	body, err := c.render(tenant, base)
	if err != nil {
		return nil, err
	}
	d := newCardDocument(body, c.modified)
	d.tree = tree
	c.docs[tenant] = d
	return d, nil
}
