package sqlite

// ListOfUser is the query of a page of a user's sessions.
const ListOfUser = ofUser
