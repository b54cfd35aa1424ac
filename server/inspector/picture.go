package inspector

import (
	"fmt"
	"html"
	"net/url"

	"github.com/agentarbor/arbor/internal/lazyregexp"
	"github.com/agentarbor/arbor/server/internal/front"
)

// hostName matches a host with or without a port, and nothing that could end a policy's directive.
var hostName = lazyregexp.New(`^([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?$`)

// picture is a document that shows one picture from elsewhere, in a frame that the page creates when the reader asks for
// the picture. The page itself may load nothing from elsewhere, and the frame from that host alone. Only a browser that
// says that the page frames it gets it, so that no address of this server shows what others have written.
func (h *Handler) picture(c *front.Call) error {
	if err := h.allow(c); err != nil {
		return err
	}
	if h := c.R.Header; h.Get("Sec-Fetch-Site") != "same-origin" || h.Get("Sec-Fetch-Dest") != "iframe" {
		return front.NotFound()
	}
	query := c.R.URL.Query()
	of, err := url.Parse(query.Get("of"))
	if err != nil || of.Scheme != "https" && of.Scheme != "http" || of.User != nil || !hostName.MatchString(of.Host) {
		return front.BadRequest("of must be the address of a picture, with http or https")
	}
	header := c.W.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", fmt.Sprintf("default-src 'none'; img-src %s://%s; style-src 'unsafe-inline'; "+
		"base-uri 'none'; form-action 'none'; frame-ancestors 'self'; sandbox", of.Scheme, of.Host))
	alt := html.EscapeString(query.Get("alt"))
	_, err = fmt.Fprintf(c.W, `<!doctype html><title>%s</title>`+
		`<style>html,body,img{width:100%%;height:100%%;margin:0}img{object-fit:scale-down;object-position:left}</style>`+
		`<img src="%s" alt="%s">`, alt, html.EscapeString(of.String()), alt)
	return err
}
