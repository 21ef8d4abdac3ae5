use super::*;

fn entry(version: u64, parent: bool, bit: u8) -> Entry {
    Entry {
        state: if version.is_multiple_of(2) { State::Live } else { State::Removed },
        version: Version::new(version).ok(),
        event: EventHash([version as u8; 16]),
        fingerprint: Fingerprint([bit; 16]),
        space: NameHash([9; 8]),
        parent: parent.then_some(ScopeHash([7; 16])),
        erased_through: Covers::from_number(u64::MAX - version),
        partition: 3,
        tombstone: (version > 2).then_some(TombstoneNo(version)),
        flags: unpack_flags(1 << (bit % 6)),
    }
}

fn sample() -> Vec<(ObjectId, ObjectRows)> {
    (0..40_u8)
        .map(|id| {
            let mut rows = ObjectRows::default();
            rows.record.floor = u32::from(id % 3);
            for generation in 1..=u32::from(id % 4) + 1 {
                let entry = entry(u64::from(id) + u64::from(generation) - 1, id % 2 == 0, id);
                rows.record.set(Generation(generation), entry);
            }
            if id % 5 != 0 {
                rows.name = format!("nämé {id}").into();
            }
            (ObjectId([id; 32]), rows)
        })
        .collect()
}

fn pack_all(objects: &[(ObjectId, ObjectRows)], checkpoint: u64, replaced: u64) -> Vec<u8> {
    let piece = |(object, rows)| Piece::Changed(ordinal(object), rows);
    let pieces: Vec<_> = objects.iter().map(|(object, rows)| piece((object, rows))).collect();
    packed(&pieces, checkpoint, replaced)
}

fn packed(pieces: &[Piece<'_>], checkpoint: u64, replaced: u64) -> Vec<u8> {
    let mut bytes = b"what was packed before".to_vec();
    pack(pieces, checkpoint, replaced, &mut bytes);
    bytes
}

fn ordinal(object: &ObjectId) -> Ordinal {
    Ordinal::of(&object.0)
}

#[test]
fn what_is_kept_is_packed_like_what_is_given() {
    let objects = sample();
    let whole = pack_all(&objects, 5, 77);
    let bucket = Bucket::check(&whole).unwrap();
    let kept: Vec<Piece<'_>> = bucket.kept().map(Piece::Kept).collect();
    assert_eq!(packed(&kept, 5, 77), whole);
    let (mixed, half): (Vec<Piece<'_>>, _) = (
        kept.iter()
            .zip(&objects)
            .enumerate()
            .filter(|(at, _)| at % 3 != 0)
            .map(
                |(at, (kept, (object, rows)))| {
                    if at % 2 == 0 { kept.clone() } else { Piece::Changed(ordinal(object), rows) }
                },
            )
            .collect(),
        objects.iter().enumerate().filter(|(at, _)| at % 3 != 0).map(|(_, it)| it.clone()),
    );
    assert_eq!(packed(&mixed, 6, 1), pack_all(&half.collect::<Vec<_>>(), 6, 1));
}

#[test]
fn what_is_packed_comes_back() {
    let objects = sample();
    let bytes = pack_all(&objects, 5, 77);
    let bucket = Bucket::check(&bytes).unwrap();
    assert_eq!((bucket.checkpoint(), bucket.replaced()), (5, 77));
    for (object, rows) in &objects {
        assert_eq!(bucket.object(object).as_ref(), Some(rows));
    }
    assert_eq!(bucket.object(&ObjectId([200; 32])), None);
    assert_eq!(bucket.objects().collect::<Vec<_>>(), objects);
}

#[test]
fn a_flipped_bit_or_a_cut_is_noticed() {
    let bytes = pack_all(&sample(), 1, 0);
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 4;
        assert!(Bucket::check(&damaged).is_none(), "byte {at}");
    }
    for length in 0..bytes.len() {
        assert!(Bucket::check(&bytes[..length]).is_none(), "length {length}");
    }
}
