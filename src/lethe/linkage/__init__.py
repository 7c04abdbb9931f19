"""Which released row is this person's? Linkage, singling out and anonymity of released rows."""
