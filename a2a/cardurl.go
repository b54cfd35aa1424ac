package a2a

// CardURL returns the address of the agent's card without user, password and query,
// as lists and drawings of a tree may show it; "" for [WithClient] without one.
func (r *remote) CardURL() string { return r.cards.shown }
