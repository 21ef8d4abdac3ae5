use cenotaph_core::{Fact, FactHash, Note, Position, QuarantineNote, QuarantineReason, Record};

use super::*;

fn mark() -> Mark {
    Mark::beginning(LedgerId([7; 16]))
}

fn records() -> Vec<Record> {
    let note = |offset| {
        Record::Note(Note::Quarantined(QuarantineNote {
            position: Position { partition: 0, epoch: 0, offset },
            reason: QuarantineReason::TooLarge,
            detail: "the record".into(),
            key: None,
            at_ms: 5,
        }))
    };
    let fact = |at_ms| Record::Fact(Fact::CleanStop { at_ms });
    vec![note(1), fact(2), note(3), note(4), fact(5), fact(6)]
}

#[test]
fn records_come_back_in_the_order_they_were_decided_in() {
    let mut encoder = Encoder::default();
    let (bytes, after) = encoder.encode(mark(), &records()).unwrap();
    let frame = Frame::read(bytes).unwrap();
    assert_eq!(frame.records().unwrap(), records());
    assert_eq!((after.frame, after.fact), (1, 3));
    assert_eq!(frame.chain_from(&mark()).unwrap(), (after.fact, after.fact_hash));
    assert_eq!(frame.hash, after.frame_hash);
}

#[test]
fn the_chain_depends_on_every_fact_and_on_the_ledger() {
    let mut encoder = Encoder::default();
    let chain = |encoder: &mut Encoder, mark, records: &[Record]| -> FactHash {
        encoder.encode(mark, records).unwrap().1.fact_hash
    };
    let whole = chain(&mut encoder, mark(), &records());
    let other = chain(&mut encoder, mark(), &records()[1..]);
    assert_eq!(whole, other, "notes are not chained");
    assert_ne!(whole, chain(&mut encoder, mark(), &records()[2..]));
    assert_ne!(whole, chain(&mut encoder, Mark::beginning(LedgerId([8; 16])), &records()));
}

#[test]
fn a_flipped_bit_or_a_cut_is_noticed() {
    let mut encoder = Encoder::default();
    let bytes = encoder.encode(mark(), &records()).unwrap().0.to_vec();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert!(Frame::read(&damaged).is_none(), "byte {at}");
        assert!(Frame::read(&bytes[..at]).is_none(), "length {at}");
    }
}

#[test]
fn without_notes_the_facts_stay_in_the_chain() {
    let mut encoder = Encoder::default();
    let bytes = encoder.encode(mark(), &records()).unwrap().0.to_vec();
    let frame = Frame::read(&bytes).unwrap();
    let stripped = encoder.strip(&frame, |_| false).unwrap().unwrap().to_vec();
    let stripped = Frame::read(&stripped).unwrap();
    assert_eq!(stripped.chain_from(&mark()).unwrap(), frame.chain_from(&mark()).unwrap());
    assert_eq!(stripped.records().unwrap().len(), 3);
    let notes = encoder.encode(mark(), &records()[2..4]).unwrap().0.to_vec();
    let frame = Frame::read(&notes).unwrap();
    assert!(encoder.strip(&frame, |_| false).unwrap().is_none());
}

#[test]
fn nothing_is_no_frame() {
    assert_eq!(Encoder::default().encode(mark(), &[]).err(), Some(EncodeError::Empty));
}
