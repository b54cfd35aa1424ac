package openai

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/agentarbor/arbor/internal/nearest"
	"github.com/agentarbor/arbor/llm"
)

const defaultBaseURL = "https://api.openai.com/v1"

// Timeouts bound one attempt at an answer. A field of zero keeps the default, a
// negative one means no limit.
type Timeouts struct {
	// Connect is the time to open a connection, name resolution and TLS
	// included. Default 10 s.
	Connect time.Duration
	// FirstByte is the longest silence before the first word of a streamed
	// answer. A local model may read a long prompt for minutes. Default
	// 5 min. It does not apply to answers that are not streamed,
	// whose first byte comes when the whole answer is made.
	FirstByte time.Duration
	// Idle is the longest silence after the first word: a piece of text, reasoning
	// or a call. Default 1 min. Keep-alive comments end a silence. The time a
	// consumer takes does not count.
	Idle time.Duration
	// Attempt is the time from the start of an attempt to the end of the
	// answer, the consumer's time included. Default 10 min.
	Attempt time.Duration
}

func (t Timeouts) withDefaults() Timeouts {
	for _, f := range []struct {
		d   *time.Duration
		def time.Duration
	}{{&t.Connect, 10 * time.Second}, {&t.FirstByte, 5 * time.Minute}, {&t.Idle, time.Minute}, {&t.Attempt, 10 * time.Minute}} {
		if *f.d == 0 {
			*f.d = f.def
		}
	}
	return t
}

// with returns the limits with those that a request has of its own.
func (t Timeouts) with(own llm.Timeouts) Timeouts {
	all := llm.Timeouts{First: t.FirstByte, Silence: t.Idle, Answer: t.Attempt}
	all = own.Or(all)
	return Timeouts{Connect: t.Connect, FirstByte: all.First, Idle: all.Silence, Attempt: all.Answer}
}

type config struct {
	baseURL       string
	key           string
	header        http.Header
	http          *http.Client
	timeouts      Timeouts
	retries       int
	retryBase     time.Duration
	retryMax      time.Duration
	maxRetryAfter time.Duration
	maxBytes      int64
	leaked        llm.LeakedCalls
	plainThink    bool    // blocks of thoughts are text
	cacheKey      *string // the prefix
	slots         slots
	tier          string
	endpoint      []string // names
	responses     bool     // the other protocol is spoken
	log           *slog.Logger
}

func defaults() config {
	return config{
		baseURL:       defaultBaseURL,
		header:        http.Header{},
		retries:       2,
		retryBase:     500 * time.Millisecond,
		retryMax:      8 * time.Second,
		maxRetryAfter: time.Minute,
		maxBytes:      16 << 20,
		leaked:        llm.LeakedCallsAuto,
		log:           slog.New(slog.DiscardHandler),
	}
}

// Option configures a [Model].
type Option func(*config)

// WithBaseURL sets the address of the endpoint, which usually ends in /v1;
// default https://api.openai.com/v1. A query in it is sent with every request.
func WithBaseURL(url string) Option { return func(c *config) { c.baseURL = strings.TrimSpace(url) } }

// WithAPIKey sets the bearer token. Without a key no Authorization header is
// sent.
func WithAPIKey(key string) Option { return func(c *config) { c.key = strings.TrimSpace(key) } }

// WithHeader sends a header with every request. It may be given several times;
// of one name the last counts.
func WithHeader(name, value string) Option { return func(c *config) { c.header.Set(name, value) } }

// WithHTTPClient sets the client whose transport, cookies and time limit are
// used; redirects are never followed. Without it each [New] makes a connection
// pool of its own.
func WithHTTPClient(client *http.Client) Option { return func(c *config) { c.http = client } }

// WithTimeouts sets the time limits.
func WithTimeouts(t Timeouts) Option { return func(c *config) { c.timeouts = t } }

// WithRetries sets how often a failed request is tried again before an answer
// has begun; default 2, 0 is never.
func WithRetries(n int) Option { return func(c *config) { c.retries = n } }

// WithRetryDelay sets the bounds of the wait before a retry: a random time up
// to base, which doubles with each further retry, but never above limit. The
// default is 500 ms and 8 s.
func WithRetryDelay(base, limit time.Duration) Option {
	return func(c *config) { c.retryBase, c.retryMax = base, limit }
}

// WithMaxRetryAfter sets the longest wait that an endpoint may ask for. If it asks for more, the call fails at once, and
// the error's RetryAfter is the wait. Defaults to 1 minute; 0 refuses every wait.
func WithMaxRetryAfter(d time.Duration) Option { return func(c *config) { c.maxRetryAfter = d } }

// WithMaxAnswerBytes bounds the size of an answer on the wire; default 16 MiB.
func WithMaxAnswerBytes(n int64) Option { return func(c *config) { c.maxBytes = n } }

// WithEndpoint names the endpoint's provider, such as "mistral", or single quirks, such as "echo" or
// "schema-in-prompt". [Endpoints] returns the names, and docs/faults.md describes them. Defaults to the provider
// that the address belongs to, if there is one. The Endpoint of a request's Settings replaces these names. In any case
// the model learns from errors what the endpoint refuses.
func WithEndpoint(names ...string) Option { return func(c *config) { c.endpoint = names } }

// WithoutThinkBlocks leaves a block such as <think> at the beginning of an answer in its
// text. By default it is the answer's reasoning, if the endpoint gives none of its own, and so is all before a line that
// begins with </think>, because some templates put the opening mark into the request. If such thoughts were handed out
// as text before the mark came, the error is retryable. Later answers of the model are then handed out once the mark has
// come, or at their end.
func WithoutThinkBlocks() Option { return func(c *config) { c.plainThink = true } }

// WithLeakedCalls says whether a whole tool call that a model writes as words, as
// small models do, is read as the call that it is; see the package documentation.
// Default llm.LeakedCallsAuto. What a request's Settings say counts more.
func WithLeakedCalls(l llm.LeakedCalls) Option { return func(c *config) { c.leaked = l } }

// WithPromptCacheKey sends the field prompt_cache_key: the prefix, and the path of the
// agent that asks, such as "shop/support/billing". OpenAI's endpoint uses it to bring
// requests that begin alike to the machine that has their beginning in its cache; a
// prefix for a part of one's users spreads what would be too much for one machine. Other
// endpoints may refuse the field, so the default is not to send it.
func WithPromptCacheKey(prefix string) Option { return func(c *config) { c.cacheKey = &prefix } }

// WithServiceTier sends the field service_tier, by which OpenAI's endpoint chooses how
// fast and at what price it answers, such as flex or priority. Empty is none.
func WithServiceTier(tier string) Option { return func(c *config) { c.tier = strings.TrimSpace(tier) } }

// WithResponses speaks OpenAI's Responses API in place of chat completions. Nothing is
// kept at the endpoint: each request has the whole conversation. Reasoning models give
// their reasoning encrypted and get it back with the calls that it has led to; with
// the quirk "echo" they are also asked for a summary of it. The API has no stop strings,
// so a request with some is an error, and no seed, which is left out.
func WithResponses() Option { return func(c *config) { c.responses = true } }

// WithSlots sends the field id_slot, which tells a llama.cpp server in which of its
// slots to answer. Each agent of a tree has a slot, so that what was computed of its
// prompt is still there when the conversation comes back to it. The n slots are assigned
// in the order in which agents first ask, and again from the first one when there are
// more agents. The server needs as many (--parallel N). Other endpoints may refuse the
// field, so the default is not to send it; 0 is none.
func WithSlots(n int) Option { return func(c *config) { c.slots.n = n } }

// WithLogger logs each attempt, and each call that was written as words, at level
// debug and each retry at level warn.
// Neither messages nor secrets are logged. Default: nothing is logged.
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.log = l } }

// check says what is wrong with the configuration, without naming secrets, and
// returns the parsed base URL.
func (c *config) check() (*url.URL, error) {
	var problems []error
	u, err := url.Parse(c.baseURL)
	switch {
	case err != nil:
		// The parser's error repeats the address, and with it what is secret in it.
		problems = append(problems, errors.New("the base URL cannot be parsed"))
	case u.Scheme != "http" && u.Scheme != "https":
		problems = append(problems, errors.New("the base URL, which OPENAI_BASE_URL sets too, must begin with http:// or https://"))
	case u.Host == "":
		problems = append(problems, errors.New("the base URL names no host"))
	}
	if strings.ContainsFunc(c.key, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		problems = append(problems, errors.New("the API key holds a space, a line break or a sign that no key can have"))
	}
	for name, values := range c.header {
		if strings.ContainsAny(strings.Join(values, ""), "\r\n\x00") {
			problems = append(problems, fmt.Errorf("the header %s holds a line break", name))
		}
	}
	if c.retries < 0 {
		problems = append(problems, errors.New("the number of retries is negative"))
	}
	if c.retryBase < 0 || c.retryMax < c.retryBase {
		problems = append(problems, errors.New("the retry delay must be zero or more, and its limit no less than its base"))
	}
	if c.maxBytes <= 0 {
		problems = append(problems, errors.New("the size limit of an answer must be above zero"))
	}
	if !c.leaked.Known() {
		problems = append(problems, fmt.Errorf("leaked calls can be auto, any or off, not %q", c.leaked))
	}
	if _, unknown := named(c.endpoint); unknown != "" {
		problems = append(problems, fmt.Errorf("no endpoint is called %q%s", unknown, nearest.Hint(unknown, Endpoints())))
	}
	if c.slots.n < 0 {
		problems = append(problems, errors.New("the number of slots is negative"))
	}
	if c.log == nil {
		problems = append(problems, errors.New("the logger is nil"))
	}
	return u, errors.Join(problems...)
}
