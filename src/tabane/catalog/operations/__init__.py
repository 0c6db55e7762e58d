"""Operations on servers and on what they offer."""
