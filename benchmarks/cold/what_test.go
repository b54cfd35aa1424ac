package cold

// What is said in every turn.
const (
	message  = "I am charged twice for my subscription"
	sentence = "I see two charges and refund one."
	root     = "support"
	expert   = "billing"
	target   = "transfer_to_agent"
)
