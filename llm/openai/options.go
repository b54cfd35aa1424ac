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

// defaultTimeouts are the limits of an attempt.
var defaultTimeouts = llm.Timeouts{Connect: 10 * time.Second, First: 5 * time.Minute, Silence: time.Minute, Answer: 10 * time.Minute}

type config struct {
	baseURL       string
	key           string
	header        http.Header
	http          *http.Client
	timeouts      llm.Timeouts
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
	endpoint      []string // the names of [WithEndpoint]
	responses     bool     // use the Responses API
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

// WithBaseURL sets the address of the endpoint, which usually ends in /v1. Its query is sent with every request.
// Defaults to https://api.openai.com/v1.
func WithBaseURL(url string) Option { return func(c *config) { c.baseURL = strings.TrimSpace(url) } }

// WithAPIKey sets the bearer token. Without a key, no Authorization header is sent.
func WithAPIKey(key string) Option { return func(c *config) { c.key = strings.TrimSpace(key) } }

// WithHeader sends a header with every request. It may be given several times; for one name the last value counts.
func WithHeader(name, value string) Option { return func(c *config) { c.header.Set(name, value) } }

// WithHTTPClient sets the client whose transport, cookies and time limit are used. Redirects are never followed.
// Without it, each [New] creates its own connection pool.
func WithHTTPClient(client *http.Client) Option { return func(c *config) { c.http = client } }

// WithTimeouts sets the time limits of an attempt. The defaults are 10 s for a connection, 5 min for the first piece, 1 min
// for a silence and 10 min for the answer.
func WithTimeouts(t llm.Timeouts) Option { return func(c *config) { c.timeouts = t } }

// WithRetries sets the number of retries of a request that fails before its answer starts; 0 means none. Defaults to 2.
func WithRetries(n int) Option { return func(c *config) { c.retries = n } }

// WithRetryDelay sets the limits of the wait before a retry: a random time up to base, which doubles with each further
// retry up to limit. Defaults to 500 ms and 8 s.
func WithRetryDelay(base, limit time.Duration) Option {
	return func(c *config) { c.retryBase, c.retryMax = base, limit }
}

// WithMaxRetryAfter sets the longest wait that an endpoint may ask for. If it asks for more, the call fails at once,
// and the error's RetryAfter is the wait. Defaults to 1 minute; 0 refuses every wait.
func WithMaxRetryAfter(d time.Duration) Option { return func(c *config) { c.maxRetryAfter = d } }

// WithMaxAnswerBytes limits the size of an answer in bytes, as it is transferred. Defaults to 16 MiB.
func WithMaxAnswerBytes(n int64) Option { return func(c *config) { c.maxBytes = n } }

// WithEndpoint names the endpoint's provider, such as "mistral", or single quirks, such as "echo" or
// "schema-in-prompt". [Endpoints] returns the names, and docs/faults.md describes them. [llm.Settings.Endpoint] of a
// request replaces these names. In addition, the model learns from errors what the endpoint refuses. Defaults to the
// provider of the address, if it is known.
func WithEndpoint(names ...string) Option { return func(c *config) { c.endpoint = names } }

// WithoutThinkBlocks leaves a block such as <think> at the beginning of an answer in its text. By default such a block
// is the answer's reasoning, if the endpoint returns no other reasoning. So is all text before a line that begins with
// </think>, because some templates put the opening mark into the request. If a part of it was yielded as text before
// the mark came, the error is retryable; for later answers, the model yields text only after the mark or at the end.
func WithoutThinkBlocks() Option { return func(c *config) { c.plainThink = true } }

// WithLeakedCalls controls whether a complete tool call that a model writes as text, as small models do, is read as a
// call; see the package documentation. A request's own setting takes precedence. Defaults to llm.LeakedCallsAuto.
func WithLeakedCalls(l llm.LeakedCalls) Option { return func(c *config) { c.leaked = l } }

// WithPromptCacheKey sends the field prompt_cache_key: the prefix and the path of the agent, such as
// "shop/support/billing". OpenAI's endpoint routes requests that start with the same text to the machine that has this
// text in its cache. Use different prefixes for groups of users to spread the load. Other endpoints may refuse the
// field, so it is not sent by default.
func WithPromptCacheKey(prefix string) Option { return func(c *config) { c.cacheKey = &prefix } }

// WithServiceTier sends the field service_tier, by which OpenAI's endpoint chooses its speed and price, such as flex or
// priority. If it is empty, the field is not sent.
func WithServiceTier(tier string) Option { return func(c *config) { c.tier = strings.TrimSpace(tier) } }

// WithResponses uses OpenAI's Responses API instead of chat completions. The endpoint stores nothing: each request
// contains the whole conversation. Reasoning models return their reasoning encrypted and get it back with the calls to
// which it led. With the quirk "echo" they are also asked for a summary of it. The API has no stop strings, so a
// request with stop strings is an error, and no seed, which is left out.
func WithResponses() Option { return func(c *config) { c.responses = true } }

// WithSlots sends the field id_slot, which selects a slot of a llama.cpp server. Each agent of a tree has its own slot,
// so the server still has the state of its prompt when the conversation returns to it. The n slots are assigned in the
// order of the agents' first requests, and from the first slot again if there are more agents. The server needs as many
// slots (--parallel N). Other endpoints may refuse the field. Defaults to 0, which does not send it.
func WithSlots(n int) Option { return func(c *config) { c.slots.n = n } }

// WithLogger logs each attempt, and each call that was written as text, at level debug, and each retry at level warn.
// It logs neither messages nor secrets. Defaults to no logging.
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.log = l } }

// check returns the errors of the configuration, without secrets, and the parsed base URL.
func (c *config) check() (*url.URL, error) {
	var problems []error
	u, err := url.Parse(c.baseURL)
	switch {
	case err != nil:
		// The parser's error contains the address with its secrets.
		problems = append(problems, errors.New("the base URL, which OPENAI_BASE_URL sets too, cannot be parsed: write it as http://HOST:PORT/v1"))
	case u.Scheme != "http" && u.Scheme != "https":
		problems = append(problems, errors.New("the base URL, which OPENAI_BASE_URL sets too, must begin with http:// or https://"))
	case u.Host == "":
		problems = append(problems, errors.New("the base URL, which OPENAI_BASE_URL sets too, names no host: write it as http://HOST:PORT/v1"))
	}
	if strings.ContainsFunc(c.key, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		problems = append(problems, errors.New("the API key contains a space, a line break or another character that no key can contain"))
	}
	for name, values := range c.header {
		if strings.ContainsAny(strings.Join(values, ""), "\r\n\x00") {
			problems = append(problems, fmt.Errorf("the header %s contains a line break", name))
		}
	}
	if c.retries < 0 {
		problems = append(problems, errors.New("the number of retries is negative"))
	}
	if c.retryBase < 0 || c.retryMax < c.retryBase {
		problems = append(problems, errors.New("the retry delay must be zero or more, and its limit at least its base"))
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
