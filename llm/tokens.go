package llm

// TokenCounter returns the number of tokens of a text for some model. It must be a pure function and safe for
// concurrent use. [EstimateTokens] works without knowing the model; package llm/tiktoken has exact counters for some
// models.
type TokenCounter func(text string) int

// The tokens of a request in addition to its texts. These are the numbers that OpenAI publishes for its chat format,
// rounded up; other formats need about the same.
const (
	// MessageTokens is the overhead of one message with its role, and of the system message.
	MessageTokens = 4
	// callTokens is the overhead of one tool call, or of one tool's description.
	callTokens = 8
	// replyTokens is the overhead of starting the model's answer.
	replyTokens = 3
	// mediaTokens is the estimate for one image or file: about the tokens of an image of a million pixels. The actual
	// number depends on size and detail, and a long document needs more.
	mediaTokens = 1000
)

// EstimateTokens estimates the number of tokens of a text from its characters, without knowing the model. Four ASCII
// letters or spaces count as one token; so do two digits, two punctuation marks, two letters of European alphabets
// beyond ASCII, one character of any other script, and half an emoji. For English prose, code and JSON the estimate is
// within a fifth of what the models of OpenAI count. In other languages a text may have half as many tokens as the
// estimate in newer models, and twice as many in old ones. Hashes and encoded bytes can have twice as many.
// EstimateTokens allocates nothing and takes time linear in the text.
func EstimateTokens(text string) int {
	quarters := 0
	for i := range len(text) {
		quarters += int(quartersOf[text[i]])
	}
	return (quarters + 3) / 4
}

// quartersOf is the weight of a character in quarters of a token, by the first byte of its UTF-8 form. Continuation
// bytes have no weight.
var quartersOf = func() (q [256]uint8) {
	for b := range q {
		switch {
		case b == ' ', 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z':
			q[b] = 1
		case b < 0x80:
			q[b] = 2
		case b < 0xC0: // a continuation byte
		case b < 0xD4: // up to U+04FF: Latin, Greek, Cyrillic
			q[b] = 2
		case b < 0xF0:
			q[b] = 4
		default: // beyond U+FFFF, mostly emoji
			q[b] = 8
		}
	}
	return q
}()

// CountRequest returns the input tokens of a request: of its system message, messages, tools and answer schema, and
// their overhead. If count is nil, it uses EstimateTokens. The IDs of calls count nothing because models do not read
// them. Reasoning counts only in a message with calls: few endpoints want other reasoning back, and their models do not
// read it.
func CountRequest(req *Request, count TokenCounter) int {
	n := replyTokens + CountTools(req.Tools, count)
	if count == nil {
		count = EstimateTokens
	}
	if req.System != "" {
		n += MessageTokens + count(req.System)
	}
	for i := range req.Messages {
		n += CountMessage(&req.Messages[i], count)
	}
	if f := req.ResponseFormat; f != nil {
		n += callTokens + count(f.Name) + count(string(f.Schema))
	}
	return n
}

// CountMessage returns the tokens that one message adds to a request. If count is nil, it uses EstimateTokens.
func CountMessage(m *Message, count TokenCounter) int {
	if count == nil {
		count = EstimateTokens
	}
	n, thought := MessageTokens, "" // counts only before a call
	if m.Text != "" {
		n += count(m.Text)
	}
	for _, p := range m.Parts {
		switch p := p.(type) {
		case TextPart:
			n += count(p.Text)
		case Media:
			n += mediaTokens
		case ToolCall:
			n += callTokens + count(p.Name) + count(p.Arguments) + count(thought)
			thought = ""
		case ToolResult:
			n += count(p.Output)
		case Reasoning:
			thought = p.Text
		}
	}
	return n
}

// CountTools returns the tokens that the descriptions of tools add to a request. If count is nil, it uses
// EstimateTokens.
func CountTools(tools []ToolSpec, count TokenCounter) int {
	if count == nil {
		count = EstimateTokens
	}
	n := 0
	for i := range tools {
		n += callTokens + count(tools[i].Name) + count(tools[i].Description) + count(string(tools[i].Parameters))
	}
	return n
}
