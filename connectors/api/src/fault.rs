//! What goes wrong at a destination: the class decides what cenotaph does next, the owner who has to
//! act. Both are decided once, where the cause is seen.

/// What may be done after a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// The request had no effect: the same call is made again, after a delay.
    Retriable,
    /// This record can never be taken: it is parked, with an owner. Never said of a removal's key;
    /// a removal that fails stays pending.
    Terminal,
    /// The request may have had its effect: cenotaph looks before it repeats it. Every fault whose
    /// cause is not known is of this class.
    Uncertain,
}

/// Who can mend a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Owner {
    /// Whoever configured cenotaph.
    Operator,
    /// Whoever runs the destination.
    Destination,
    /// Whoever produced the record.
    Producer,
    /// The authors of cenotaph or of the connector.
    Cenotaph,
}

impl Owner {
    /// The owner's word in answers and logs.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Owner::Operator => "operator",
            Owner::Destination => "destination",
            Owner::Producer => "producer",
            Owner::Cenotaph => "cenotaph",
        }
    }
}

/// Something went wrong. The text says what happened, where and what to do; never content.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}; {advice}")]
pub struct Fault {
    /// What may be done.
    pub class: Class,
    /// Who can mend it.
    pub owner: Owner,
    /// What happened, and where.
    pub what: String,
    /// What to do.
    pub advice: String,
}

impl Fault {
    /// The request had no effect and may be repeated.
    #[must_use]
    pub fn retriable(owner: Owner, what: impl Into<String>, advice: impl Into<String>) -> Fault {
        Fault { class: Class::Retriable, owner, what: what.into(), advice: advice.into() }
    }

    /// The record can never be taken.
    #[must_use]
    pub fn terminal(owner: Owner, what: impl Into<String>, advice: impl Into<String>) -> Fault {
        Fault { class: Class::Terminal, owner, what: what.into(), advice: advice.into() }
    }

    /// Nobody knows whether the request had its effect.
    #[must_use]
    pub fn uncertain(owner: Owner, what: impl Into<String>, advice: impl Into<String>) -> Fault {
        Fault { class: Class::Uncertain, owner, what: what.into(), advice: advice.into() }
    }
}
