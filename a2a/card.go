package a2a

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/internal/visible"
)

// The paths at which agents publish their cards, in A2A 1.0 and before.
const (
	wellKnown    = "/.well-known/agent-card.json"
	oldWellKnown = "/.well-known/agent.json"
)

// maxCard bounds an agent card in bytes.
const maxCard = 1 << 20

// peer is a client for an interface of a card.
type peer struct {
	client   Client
	endpoint string // without query and credentials, for errors and events
}

// cards fetches the card once for all concurrent callers and keeps it for its lifetime. It does not keep errors.
type cards struct {
	url        *url.URL
	displayURL string
	client     *http.Client
	ttl        time.Duration
	timeout    time.Duration
	verify     func(ctx context.Context, card []byte) error // nil: cards are not verified
	parse      func(card []byte) (*sdk.AgentCard, error)
	connect    func(context.Context, *sdk.AgentCard) (*peer, error)
	given      *peer // set if there is no card to fetch

	flight flight[*peer]
	mu     sync.Mutex
	kept   *keptCard
}

// keptCard is the last fetched card and its expiry.
type keptCard struct {
	peer  *peer
	until time.Time
	sum   [sha256.Size]byte
	// The URL that the card came from, and the headers with which to revalidate it.
	source string
	header http.Header
}

// conditional returns the headers that request a card only if it has changed. It returns none if the last response had
// no validators or came from another URL.
func (k *keptCard) conditional(source string) http.Header {
	h := make(http.Header)
	if k == nil || k.source != source {
		return h
	}
	if etag := k.header.Get("ETag"); etag != "" {
		h.Set("If-None-Match", etag)
	}
	if modified := k.header.Get("Last-Modified"); modified != "" {
		h.Set("If-Modified-Since", modified)
	}
	return h
}

// get returns the peer of the kept card, and fetches the card if it has expired.
func (c *cards) get(ctx context.Context) (*peer, error) {
	if c.given != nil {
		return c.given, nil
	}
	return c.flight.get(ctx, c.fresh, c.fetch)
}

func (c *cards) fresh() *peer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept != nil && time.Now().Before(c.kept.until) {
		return c.kept.peer
	}
	return nil
}

// drop lets the card of p expire after a failed call, so that the next use fetches it again. If the card has not
// changed, its connection stays in use.
func (c *cards) drop(p *peer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept != nil && c.kept.peer == p {
		c.kept.until = time.Time{}
	}
}

func (c *cards) fetch(caller context.Context) (*peer, error) {
	ctx, cancel := context.WithTimeout(caller, c.timeout)
	defer cancel()
	p, err := c.refresh(ctx)
	if err != nil && caller.Err() == nil && ctx.Err() != nil {
		return nil, fmt.Errorf("the agent card did not arrive within %s: %w", c.timeout, ctx.Err())
	}
	return p, err
}

// refresh fetches the card, or extends the kept one if it has not changed.
func (c *cards) refresh(ctx context.Context) (*peer, error) {
	urls := []*url.URL{c.url}
	if c.url.Path == "" || c.url.Path == "/" {
		first, second := *c.url, *c.url
		first.Path, second.Path = wellKnown, oldWellKnown
		urls = []*url.URL{&first, &second}
	}
	c.mu.Lock()
	old := c.kept
	c.mu.Unlock()
	var got *fetched
	var err error
	for _, u := range urls {
		got, err = c.read(ctx, u, old)
		var status *statusError
		if !errors.As(err, &status) || status.status != http.StatusNotFound {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	kept := &keptCard{source: got.source, header: got.header}
	if got.body == nil {
		// The card has not changed. Its earlier headers apply unless the response repeats them (RFC 9111, section 3.2).
		kept.header, kept.sum = old.header.Clone(), old.sum
		kept.header.Del("Age")
		maps.Copy(kept.header, got.header)
	} else {
		kept.sum = sha256.Sum256(got.body)
		if c.verify != nil {
			if err := c.verify(ctx, bytes.Clone(got.body)); err != nil {
				return nil, &verifyError{err}
			}
		}
	}
	fresh, stored := lifetime(kept.header, got.asked, c.ttl)
	kept.until = got.asked.Add(fresh)
	if !stored {
		kept.source, kept.header = "", nil
	}
	if old != nil && kept.sum == old.sum {
		same := *old.peer // a copy, so that the late error of an earlier call does not drop it
		kept.peer = &same
	} else {
		card, err := c.parse(got.body)
		if err != nil {
			return nil, err
		}
		if kept.peer, err = c.connect(ctx, card); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	c.kept = kept
	c.mu.Unlock()
	return kept.peer, nil
}

// fetched is the response to a card request.
type fetched struct {
	source string
	asked  time.Time // the age of the kept card counts from here
	header http.Header
	body   []byte // nil if the card has not changed
}

// read requests the card at u, conditionally if the kept card came from there.
func (c *cards) read(ctx context.Context, u *url.URL, old *keptCard) (*fetched, error) {
	f := &fetched{source: u.String(), asked: time.Now()}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.source, nil)
	if err != nil {
		return nil, errors.New("cannot create a request for the card's URL")
	}
	req.Header = old.conditional(f.source)
	asks := len(req.Header) > 0
	req.Header.Set("Accept", "application/json")
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	f.header = make(http.Header)
	for _, name := range []string{"Cache-Control", "Expires", "Date", "Age", "ETag", "Last-Modified"} {
		if v := resp.Header.Values(name); len(v) > 0 {
			f.header[http.CanonicalHeaderKey(name)] = v
		}
	}
	if asks && resp.StatusCode == http.StatusNotModified {
		return f, nil
	}
	if resp.StatusCode != http.StatusOK {
		return nil, &statusError{status: resp.StatusCode}
	}
	f.body, err = io.ReadAll(io.LimitReader(resp.Body, maxCard+1))
	if err != nil {
		return nil, err
	}
	if len(f.body) > maxCard {
		return nil, fmt.Errorf("%w of %d bytes", errTooLarge, maxCard)
	}
	return f, nil
}

// parseCard parses a card of A2A 1.0, or one that a binding of another version can parse, because as a card of 1.0 it
// has no interfaces.
func (r *remote) parseCard(body []byte) (*sdk.AgentCard, error) {
	// It decodes only the fields that are used, so that an invalid value elsewhere in the card does no harm.
	var card struct {
		Name                string                `json:"name"`
		Description         string                `json:"description"`
		SupportedInterfaces []*sdk.AgentInterface `json:"supportedInterfaces"`
		Capabilities        sdk.AgentCapabilities `json:"capabilities"`
		Old                 string                `json:"protocolVersion"`
	}
	err := json.Unmarshal(body, &card)
	if err == nil && len(card.SupportedInterfaces) > 0 {
		return &sdk.AgentCard{Name: card.Name, Description: card.Description, SupportedInterfaces: card.SupportedInterfaces, Capabilities: card.Capabilities}, nil
	}
	for _, b := range r.bindings {
		if b.ParseCard == nil {
			continue
		}
		if card, err := b.ParseCard(body); err == nil && card != nil && len(card.SupportedInterfaces) > 0 {
			return card, nil
		}
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("the card is invalid: %w", err)
	case strings.HasPrefix(card.Old, "0."):
		return nil, fmt.Errorf("the peer supports only A2A %s: for 0.3, add the bindings of package github.com/agentarbor/arbor/a2a/a2av0 with WithBinding", visible.Cut(card.Old, 20))
	}
	return nil, errors.New("the card contains no interface")
}
